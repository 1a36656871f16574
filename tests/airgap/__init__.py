"""Machines with no way out: a bundle pushed to them, a mirror beside them, and bad input."""
