"""Raw frames: what clients rely on without saying so, each version of each API, and the traps of the protocol."""
