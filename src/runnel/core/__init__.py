"""The deterministic middle of Runnel: state machines and tables, no I/O.

Owns what the broker decides: cluster metadata (`metadata`), configuration (`configs`), consumer groups (`groups`),
one partition's producer states (`partition`). Values go in (commands, records, the time as `now_ms`, fresh uuids as a
callable), values come out (records to log, replies, immutable images).

May import `runnel.wire` (error codes, types, varints) and pure parts of the standard library. Never asyncio,
os, socket, time, random, threading or logging; and the packages in here do not import each other.
"""
