"""The `runnel` command: against a real broker; pipes, signals and terminals with real processes."""
