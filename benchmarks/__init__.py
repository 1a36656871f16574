"""Figures of speed and size, measured on lab machines: `make bench`."""
