"""Tests with Kafka clients that we did not write, and raw frames for the traps of the protocol."""
