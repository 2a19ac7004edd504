"""The values of Fetch: what a request asks and what a reply says, with the limits both codecs share.

Owns: the NamedTuples that services and clients hold; no bytes here. See `fetch` and `fetch_reply` for the
codecs.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from runnel.wire.errors import Malformed
from runnel.wire.types import ZERO_UUID

VERSION_MIN = 4
VERSION_MAX = 18
SESSIONS_FROM = 7
FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
NODE_ENDPOINTS_FROM = 16

PARTITIONS_MAX = 200_000
"""Topics and partitions in one request: what a large follower asks for, and no more memory than that."""

HIGH_WATERMARK_UNSUPPORTED = 2**63 - 1
"""The default of FetchPartition.high_watermark: the sender does not take part in KIP-1166."""


class FetchPartition(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls here
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    replica_directory_id: uuid.UUID = ZERO_UUID
    high_watermark: int = HIGH_WATERMARK_UNSUPPORTED


class FetchTopic(NamedTuple):
    """One topic of a request: by `name`, or from version 13 by `topic_id` with an empty name."""

    name: str
    topic_id: uuid.UUID
    partitions: list[FetchPartition]


class FetchRequest(NamedTuple):
    replica_id: int
    """The follower that asks, -1 for consumers."""
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[tuple[str, uuid.UUID, list[int]]] = []  # noqa: RUF012  read only, like every value here
    rack_id: str = ""
    cluster_id: str | None = None


class FetchPartitionReply(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls here
    error_code: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """Producer id and first offset of each, for read_committed readers; None for the others."""
    preferred_read_replica: int = -1
    records: bytes | bytearray | memoryview | None = b""
    diverging_epoch: tuple[int, int] | None = None
    """Epoch and its end offset, where the follower's log went another way (version 12 and up)."""
    current_leader: tuple[int, int] | None = None
    """Leader id and epoch (version 12 and up, KIP-951)."""
    snapshot_id: tuple[int, int] | None = None
    """End offset and epoch of the snapshot to fetch instead (version 12 and up, KIP-630)."""


FetchTopicReply: TypeAlias = tuple[str, uuid.UUID, Sequence[FetchPartitionReply]]
"""topic name, topic id (only the one that the version uses is written), partitions"""


class FetchResponse(NamedTuple):
    throttle_ms: int
    error_code: int
    session_id: int
    topics: list[tuple[str, uuid.UUID, list[FetchPartitionReply]]]
    node_endpoints: list[tuple[int, str, int, str | None]]


def check_fetch_version(version: int) -> None:
    if not VERSION_MIN <= version <= VERSION_MAX:
        raise Malformed(f"Fetch version {version} does not exist")


def checked_count(count: int, position: int) -> tuple[int, int]:
    if not 0 <= count <= PARTITIONS_MAX:
        raise Malformed(f"an array of {count} items is null or too long")
    return count, position
