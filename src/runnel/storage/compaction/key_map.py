"""Which batch holds the newest record of each key, in bounded memory.

A key is kept as it is up to 31 bytes and as a 32-byte digest beyond, so the two are never confused. Its value is the
number of a batch, counted from the first dirty one: all records of a batch share that one number, which makes a key
cost little more than itself. Which record of the batch is the newest is seen when the batch is opened again; but of
each batch is known how many newest records it holds, so many need not be opened a second time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b

KEY_BYTES = 128
"""What a key costs: 48 to 80 bytes for itself, 30 to 60 for its place in the table (Kafka's table takes 24)."""
BATCH_BYTES = 5
DIGEST_BYTES = 32
CLEAN = -1
"""The number of every batch that is not in the map."""


def shorten(key: bytes) -> bytes:
    """What stands for a long key. No short key has as many bytes."""
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


class KeyMap:
    def __init__(self, bytes_max: int) -> None:
        self._newest: dict[bytes | None, int] = {}
        self._counts = array("i")
        self._has_null_values = bytearray()
        self._bytes_max = bytes_max

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def newest(self) -> Callable[[bytes | None, int], int]:
        """`newest(key, number)`: the batch with the newest record of the key; `number` for a key not in the map."""
        return self._newest.get

    def newest_count(self, number: int) -> int:
        """How many records of this batch are the newest of their keys."""
        return self._counts[number]

    def has_null_values(self, number: int) -> bool:
        return self._has_null_values[number] == 1

    def add(self, keys: Sequence[bytes | None], has_null_values: bool) -> bool:
        """The next batch holds these keys. False: the map is full, and the batch was left out.

        The first batch is always taken, however many keys it has: without that there would be no progress.
        """
        newest, counts = self._newest, self._counts
        number = len(counts)
        fresh = dict.fromkeys(keys, number)
        fresh.pop(None, None)
        if number and self._bytes(len(newest) + len(fresh)) > self._bytes_max:
            added = len(fresh.keys() - newest.keys())
            if self._bytes(len(newest) + added) > self._bytes_max:
                return False
        for before in map(newest.get, fresh):
            if before is not None:
                counts[before] -= 1
        newest.update(fresh)
        counts.append(len(fresh))
        self._has_null_values.append(has_null_values)
        return True

    def _bytes(self, keys: int) -> int:
        return keys * KEY_BYTES + len(self._counts) * BATCH_BYTES
