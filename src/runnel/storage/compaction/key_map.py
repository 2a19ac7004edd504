"""The newest batch of each key, in bounded memory.

A key is kept as it is up to 31 bytes and as a 32-byte digest beyond, so the two are never confused; the value is the
base offset of the newest batch that holds the key. All records of a batch share that one number, which makes a
key cost little more than itself; which record of the batch is the newest is seen when the batch is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

KEY_BYTES = 128
"""What a key costs: 48 to 80 bytes for itself, 30 to 60 for its place in the table (Kafka's table takes 24)."""
DIGEST_BYTES = 32


def shorten(key: bytes) -> bytes:
    """What stands for a long key. No short key has as many bytes."""
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


class KeyMap:
    def __init__(self, bytes_max: int) -> None:
        self._newest: dict[bytes | None, int] = {}
        self._keys_max = max(1, bytes_max // KEY_BYTES)

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def newest(self) -> Callable[[bytes | None, int], int]:
        """`newest(key, base_offset)`: the newest batch with this key, or `base_offset` for a key not in the map."""
        return self._newest.get

    def add(self, keys: Sequence[bytes | None], base_offset: int) -> bool:
        """These keys are in the batch at `base_offset`. False: the map is full, and the batch was left out.

        The first batch is always taken, however many keys it has: without that there would be no progress.
        """
        fresh = dict.fromkeys(keys, base_offset)
        fresh.pop(None, None)
        newest = self._newest
        if (
            len(newest) + len(fresh) > self._keys_max
            and newest
            and len(newest) + len(fresh.keys() - newest.keys()) > self._keys_max
        ):
            return False
        newest.update(fresh)
        return True
