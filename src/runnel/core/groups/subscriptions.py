"""The topics in a consumer's subscription: the only part of the members' own protocol that a broker ever reads."""

from functools import lru_cache
from struct import Struct
from struct import error as StructError

from runnel.wire.errors import Malformed
from runnel.wire.primitives import read_legacy_count, read_legacy_string

_VERSION = Struct(">h")
_CACHE_ENTRIES = 1024


@lru_cache(maxsize=_CACHE_ENTRIES)
def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None where the bytes are no subscription of the consumer protocol."""
    try:
        (version,) = _VERSION.unpack_from(metadata)
        count, position = read_legacy_count(metadata, _VERSION.size, 2)
        topics = []
        for _ in range(count):
            topic, position = read_legacy_string(metadata, position)
            topics.append(topic)
    except (Malformed, StructError, IndexError, UnicodeDecodeError):
        return None
    return frozenset(topics) if version >= 0 else None
