"""One partition's log in Kafka's own on-disk format, and the data directory that holds many of them.

Owns every byte on disk: files -> handles -> index -> segment -> log, with recovery, retention, snapshots. In: whole
record batches and offsets; out: offsets, byte ranges to read, jobs that block (to be run off the event loop).
May import `runnel.core` (producer states) and `runnel.wire` (batch headers, error codes). The file formats and the
recovery rules are in docs/formats.md.
"""
