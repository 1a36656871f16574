"""Lint of units, scripts and recipes: what the programs named in them will really get."""
