"""Stand-ins for what the lab's hardware cannot do; each says what it replaces."""
