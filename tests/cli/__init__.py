"""The `runnel` command: usage through click's runner, everything else as a real process against a real broker."""
