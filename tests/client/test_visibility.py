"""What a reader shows of a partition: no markers, and with read_committed nothing that was aborted."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

import pytest

from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from runnel.client.reader import Chunk, Reader, ReaderSettings
from runnel.wire.batch import encode_batch
from runnel.wire.fetch import FetchPartitionReply

TARGET = TopicPartition("t", 0)
ABORT, COMMIT = 0, 1


def records(base_offset: int, producer_id: int, *values: bytes) -> bytes:
    rows = [(0, None, value, ()) for value in values]
    return bytes(
        encode_batch(
            rows,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=producer_id >= 0,
        )
    )


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    row = (0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), ())
    return bytes(
        encode_batch(
            [row], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
        )
    )


LOG = b"".join(
    [
        records(0, 7, b"aborted 0", b"aborted 1"),
        records(2, 8, b"committed 2"),
        records(3, -1, b"plain 3"),
        marker(4, 7, ABORT),
        records(5, 7, b"committed 5"),
        marker(6, 8, COMMIT),
        marker(7, 7, COMMIT),
    ]
)


def opened(log: bytes, isolation: int, aborted: Sequence[tuple[int, int]] | None, position: int = 0) -> Chunk:
    async def work() -> Chunk:
        reader = Reader(Cluster("unused:1"), {TARGET: position}, ReaderSettings(isolation=isolation))
        return reader._open(TARGET, position, FetchPartitionReply(0, 0, 8, aborted_transactions=aborted, records=log))

    return asyncio.run(work())


def values(chunk: Chunk) -> list[bytes | None]:
    return [record.value for record in chunk.records]


def test_markers_are_never_shown_and_always_passed() -> None:
    chunk = opened(LOG, READ_UNCOMMITTED, None)
    assert values(chunk) == [b"aborted 0", b"aborted 1", b"committed 2", b"plain 3", b"committed 5"]
    assert chunk.next_offset == 8


def test_read_committed_leaves_out_what_was_aborted_and_nothing_else() -> None:
    chunk = opened(LOG, READ_COMMITTED, [(7, 0)])
    assert values(chunk) == [b"committed 2", b"plain 3", b"committed 5"]
    assert chunk.next_offset == 8


def test_a_transaction_that_began_before_the_position_is_still_aborted() -> None:
    chunk = opened(LOG, READ_COMMITTED, [(7, 0)], position=1)
    assert values(chunk) == [b"committed 2", b"plain 3", b"committed 5"]


def test_from_the_middle_of_a_batch() -> None:
    assert values(opened(LOG, READ_UNCOMMITTED, None, position=1))[0] == b"aborted 1"


def test_a_damaged_batch_is_an_error_and_not_a_record() -> None:
    damaged = bytearray(LOG)
    damaged[80] ^= 1
    with pytest.raises(ClientError, match="checksum"):
        opened(bytes(damaged), READ_UNCOMMITTED, None)


def test_half_a_batch_is_an_error_and_not_an_endless_loop() -> None:
    with pytest.raises(ClientError, match="no whole batch at offset 0"):
        opened(LOG[:70], READ_UNCOMMITTED, None)
