"""The client library: pure parts by values, connections against scripted servers, the rest against a real broker."""
