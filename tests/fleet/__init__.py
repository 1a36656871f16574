"""Several sparks on lab machines."""
