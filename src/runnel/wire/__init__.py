"""Bytes to values and back: frames, Kafka messages, the hot Produce and Fetch codecs, batches, error codes.

Owns: every byte layout of the Kafka protocol. In: buffers and plain values; out: plain values and buffers.
Imports nothing else of Runnel and does no I/O: no sockets, files, clocks or chance. Bytes that do not parse
raise `errors.Malformed` and nothing else, and no length read from a peer allocates memory before it is
checked against the bytes that are there.
"""
