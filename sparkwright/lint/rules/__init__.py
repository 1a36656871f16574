"""One module a family, one function a rule; see registry.py."""
