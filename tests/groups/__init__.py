"""Consumer groups with real clients on a real broker."""
