"""From bytes to documents: one module a format."""
