"""Tests of the air gap's laptop side: needs, lock, bundle, verify."""
