"""Which partition a record goes to, as Kafka's own producer decides it.

In: a key (or none) and the number of partitions. Out: a partition index.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 with Kafka's seed, as an unsigned 32-bit number."""
    length = len(data)
    state = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ (word >> 24)) * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ (state >> 13)) * _MULTIPLIER & _MASK
    return state ^ (state >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Kafka's default: equal keys go to equal partitions, for every client that keeps to it."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
