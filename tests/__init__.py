"""Tests of sparkwright; `tests.lab` boots the machines that they need."""
