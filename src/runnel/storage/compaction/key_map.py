"""Where the newest record of each key lies, in bounded memory.

A key is kept as it is up to 23 bytes and as a 24-byte digest beyond, so the two are never confused. Its value is the
place of the newest record: the number of its batch, counted from the first dirty one, and where in the records of that
batch it starts. So the dirty part need not be read again record by record: sorted, the places say what is left of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

KEY_BYTES = 176
"""What a key costs: 48 or 64 bytes for itself, 40 for its place, 30 to 60 in the table (Kafka's table takes 24)."""
BATCH_BYTES = 16
DIGEST_BYTES = 24
START_BITS = 28
"""A batch holds at most 128 MiB of records (wire/compression.py), so this is enough for where one starts."""
START_MASK = (1 << START_BITS) - 1


def shorten(key: bytes) -> bytes:
    """What stands for a long key. No short key has as many bytes."""
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


class KeyMap:
    """`newest` is looked into directly: this is the hottest dictionary of compaction."""

    __slots__ = ("_bytes_max", "_has_null_values", "newest", "positions")

    def __init__(self, bytes_max: int) -> None:
        self.newest: dict[bytes | None, int] = {}
        self.positions = array("q")
        """Of each batch, in the file of its segment."""
        self._has_null_values = bytearray()
        self._bytes_max = bytes_max

    def __len__(self) -> int:
        return len(self.newest)

    def has_null_values(self, number: int) -> bool:
        return self._has_null_values[number] == 1

    def places(self) -> list[int]:
        """Every newest record, in the order of the log."""
        return sorted(self.newest.values())

    def add(self, keys: Sequence[bytes | None], starts: Sequence[int], position: int, has_null_values: bool) -> bool:
        """The next batch lies at `position` and holds records with these keys, which start there. False: the map is
        full, and the batch was left out.

        The first batch is always taken, however many keys it has: without that there would be no progress.
        """
        newest, number = self.newest, len(self.positions)
        size = (len(newest) + len(keys)) * KEY_BYTES + number * BATCH_BYTES
        if size > self._bytes_max and number and self._is_full(keys):
            return False
        if len(keys) == 1:
            newest[keys[0]] = number << START_BITS
        elif keys:
            # One number per record, made without a loop of our own: the batch's, and the start less the first.
            newest.update(zip(keys, map(((number << START_BITS) - starts[0]).__add__, starts), strict=False))
        newest.pop(None, None)
        self.positions.append(position)
        self._has_null_values.append(has_null_values)
        return True

    def _is_full(self, keys: Sequence[bytes | None]) -> bool:
        total = len(self.newest) + len(set(keys) - self.newest.keys())
        return total * KEY_BYTES + len(self.positions) * BATCH_BYTES > self._bytes_max
