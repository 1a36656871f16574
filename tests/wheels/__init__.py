"""The real wheels of the profile stock, looked into without installing them: `make test-wheels`."""
