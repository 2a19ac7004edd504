"""The deterministic part of one partition: which producer may append what, with no I/O.

Owns `producers` (idempotence). In: header fields and the time as an argument; out: verdicts and snapshot entries.
"""
