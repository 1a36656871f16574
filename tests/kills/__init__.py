"""Sudden death: first converges that are killed at random moments, and what one more run does."""
