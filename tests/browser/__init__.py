"""Pages that we write, in a real browser: `make test-browser`; not part of `make test`."""
