"""`kafka.buffer.memory` bounds what the sink holds: rows are not taken while as much is on its way to a slow broker.

A real broker. Replies count as not there until the sink waits for them: as slow as a broker can be, without a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from runnel.spark.brokers.connection import Connection
from runnel.spark.writing import task as task_module
from runnel.spark.writing.sender import Sender
from runnel.spark.writing.task import WriteTask
from spark.records import read_batch, source

KEYED = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
PIECES = 60
PIECE_ROWS = 100
VALUE_BYTES = 200
PARTITIONS = 3
BATCH_BYTES = 4000
PIECE_BYTES_MAX = PIECE_ROWS * (VALUE_BYTES + 40) + PARTITIONS * BATCH_BYTES
"""An Arrow batch, and what it completes in each partition: what may be added to what already waits."""
EVERYTHING_BYTES = PIECES * PIECE_ROWS * VALUE_BYTES


@dataclass
class Memory:
    """The bytes of the sink's batches, each time that the sender has got more of them and each time that it sends."""

    waiting: list[int] = field(default_factory=list)
    gathering: list[int] = field(default_factory=list)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Counted from the batches themselves, not by the sender's own counter."""
    noted = Memory()
    exchange, add = Sender._exchange, WriteTask.add

    def noting_exchange(self: Sender, *, wait: bool) -> None:
        noted.waiting.append(sum(batch.end for lane in self._lanes.values() for batch in lane))
        exchange(self, wait=wait)

    def noting_add(self: WriteTask, batch: pa.RecordBatch) -> None:
        add(self, batch)
        noted.gathering.append(sum(lane.size_bytes for lane in self._lanes.values()))

    monkeypatch.setattr(Sender, "_exchange", noting_exchange)
    monkeypatch.setattr(WriteTask, "add", noting_add)
    monkeypatch.setattr(Connection, "has_reply", lambda _: False)
    return noted


def key(number: int) -> bytes:
    return b"%06d" % number


def pieces() -> Iterator[pa.RecordBatch]:
    for first in range(0, PIECES * PIECE_ROWS, PIECE_ROWS):
        keys = [key(number) for number in range(first, first + PIECE_ROWS)]
        yield pa.record_batch([pa.array(keys), pa.array([b"v" * VALUE_BYTES] * PIECE_ROWS)], names=["key", "value"])


def write(bootstrap: str, topic: str, rows: Iterator[pa.RecordBatch], **settings: int) -> None:
    kafka = {f"kafka.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    source(bootstrap, {"topic": topic, **kafka}).writer(KEYED, overwrite=False).write(rows)


def keys_of(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(row["key"] for row in read_batch(bootstrap, subscribe=topic))


@pytest.mark.parametrize("buffer_bytes", [20_000, 100_000, 400_000])
def test_what_waits_for_the_broker_stays_within_the_buffer(
    bootstrap: str, new_topic: Callable[..., str], memory: Memory, buffer_bytes: int
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    write(bootstrap, topic, pieces(), buffer_memory=buffer_bytes, batch_size=BATCH_BYTES)
    assert max(memory.waiting) <= buffer_bytes + PIECE_BYTES_MAX < EVERYTHING_BYTES
    assert max(memory.waiting) > buffer_bytes, "and all of it is used: the sink encodes while the broker works"
    assert keys_of(bootstrap, topic) == [key(number) for number in range(PIECES * PIECE_ROWS)]


def test_rows_are_not_taken_faster_than_they_arrive(
    bootstrap: str, new_topic: Callable[..., str], memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark feels: while the buffer is full nobody asks it for rows."""
    senders: list[Sender] = []
    ahead: list[int] = []

    class Noted(Sender):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            senders.append(self)

    def watched() -> Iterator[pa.RecordBatch]:
        for number, piece in enumerate(pieces()):
            arrived = sum(count for count, _ in senders[0].arrived.values())
            ahead.append(number * PIECE_ROWS - arrived)
            yield piece

    monkeypatch.setattr(task_module, "Sender", Noted)
    write(bootstrap, new_topic(partitions=PARTITIONS), watched(), buffer_memory=50_000, batch_size=BATCH_BYTES)
    assert len(ahead) == PIECES
    assert max(ahead) * VALUE_BYTES <= 2 * 50_000, "as much may wait, and as much may gather"


def test_batches_that_fill_slowly_leave_before_they_are_full(
    bootstrap: str, new_topic: Callable[..., str], memory: Memory
) -> None:
    """Many partitions with a large batch each would hold everything until the end."""
    buffer_bytes, partitions = 100_000, 40
    topic = new_topic(partitions=partitions)
    write(bootstrap, topic, pieces(), buffer_memory=buffer_bytes, batch_size=900_000)
    assert max(memory.gathering) <= buffer_bytes
    assert max(memory.waiting) <= 2 * (buffer_bytes + PIECE_BYTES_MAX) < EVERYTHING_BYTES
    assert len(keys_of(bootstrap, topic)) == PIECES * PIECE_ROWS
