"""Traps of pyinfra 3.10.0 that must not reach a user; each was seen to catch one."""
