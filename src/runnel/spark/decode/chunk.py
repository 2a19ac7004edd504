"""What one fetch or one piece of a segment holds: which batches, which of them are to be seen, and their records.

In: bytes, the offsets wanted, the aborted transactions that the broker named. Out: `Rows`, a bounded number at a time.
Control batches are skipped, aborted transactions too where only committed records are wanted, and batches that begin
before the wanted offset are cut to it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from runnel.spark.decode import kernels
from runnel.spark.decode.columns import Numbers, Rows
from runnel.spark.decode.inflating import Inflater
from runnel.spark.decode.kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    COUNT,
    CRC_MATCHES,
    END,
    HEADER_BYTES,
    INDEX_COLUMNS,
    LAST_OFFSET,
    MAGIC_AT,
    POSITION,
    PRODUCER_ID,
    RECORD_BYTES_MIN,
    ROWS,
    TABLE_COLUMNS,
    TABLE_FULL,
)
from runnel.wire.batch import COMPRESSION_MASK, CONTROL_BIT, TRANSACTIONAL_BIT, decode_records
from runnel.wire.compression import DECOMPRESSED_BYTES_MAX
from runnel.wire.errors import Malformed

ROWS_MAX = 1 << 16
"""Records of whole batches that are handed on at once, unless a single batch holds more."""
INDEX_ROWS_MAX = 4 * ROWS_MAX
"""Records that are handed on at once, whatever a single batch holds: some kilobytes can inflate to millions of them."""
FEW_OF = 4
"""An index is copied where fewer than one of so many of its rows are wanted."""
INFLATED_BYTES_MAX = 32 << 20
"""Decompressed bytes that are held at once, unless a single batch holds more."""
ABORT_MARKER = 0

_thread = threading.local()
"""Holds each thread's Inflater: its buffer is worth keeping from chunk to chunk."""
_TABLE_ROWS = 4096
_REASONS = {
    kernels.BAD_LENGTH: "a record batch claims a length that no batch has",
    kernels.BAD_COUNT: "a record batch claims more records than fit into it",
    kernels.BAD_RECORD: "a record does not parse",
}


class Chunk:
    """Whole batches of one partition. Making one reads the headers only; `rows` decodes."""

    def __init__(self, data: Numbers, *, check_crc: bool = True) -> None:
        # Always read-only: for numba that is another type, and one type is compiled and loaded sooner than two.
        self._data = data.view()
        self._data.flags.writeable = False
        self.batches, self.end = _scan(self._data, check_crc)

    @property
    def next_offset(self) -> int:
        """The offset after the last batch, whatever of it is to be seen; -1 where there is no whole batch."""
        return int(self.batches[:, LAST_OFFSET].max()) + 1 if len(self.batches) else -1

    def rows(
        self,
        topic: str,
        partition: int,
        first_offset: int,
        until_offset: int,
        aborted: Sequence[tuple[int, int]] | None = None,
    ) -> Iterator[Rows]:
        """The records from `first_offset` to before `until_offset`, without those of `aborted` transactions.

        What is yielded is valid until the next is asked for: decompressed records share a buffer.
        """
        before_end = self.batches[:, BASE_OFFSET] < until_offset
        _check_sums(self.batches, before_end)
        wanted = (self.batches[:, LAST_OFFSET] >= first_offset) & before_end
        special = self.batches[:, ATTRIBUTES] & (CONTROL_BIT | TRANSACTIONAL_BIT) != 0
        if special.any():
            wanted &= _visible(self._data, self.batches, aborted or ())
        batches = self.batches if wanted.all() else self.batches[wanted]  # the table of small batches is large
        for group in _groups(batches):
            for data, spans, opened in _opened(self._data, group):
                yield from _index(data, spans, opened, topic, partition, first_offset, until_offset - 1)


def _check_sums(batches: Numbers, before_end: Any) -> None:
    """Of all that may be wanted: where the last offset of a batch is damaged, nothing tells that it is not."""
    for batch in batches[before_end & (batches[:, CRC_MATCHES] == 0)]:
        raise Malformed(f"the checksum of the batch at offset {batch[BASE_OFFSET]} does not match: it is damaged")


def _scan(data: Numbers, check_crc: bool) -> tuple[Numbers, int]:
    tables: list[Numbers] = []
    position = 0
    while True:
        table = np.empty((_TABLE_ROWS, TABLE_COLUMNS), np.int64)
        count, status, position = kernels.scan_batches(data, position, check_crc, table)
        tables.append(table[:count])
        if status == kernels.OK:
            return (tables[0] if len(tables) == 1 else np.concatenate(tables)), position
        if status == kernels.BAD_MAGIC:
            magic = data[position + MAGIC_AT]
            raise Malformed(
                f"a record batch of magic {magic} cannot be read: its topic holds records of Kafka before 0.11; "
                "have a current broker rewrite them"
            )
        if status != TABLE_FULL:
            raise Malformed(_REASONS[status])


def _visible(data: Numbers, batches: Numbers, aborted: Sequence[tuple[int, int]]) -> Any:
    """Which batches are neither markers nor part of a transaction that was aborted."""
    ahead = deque(sorted(aborted, key=lambda pair: pair[1]))
    aborting: set[int] = set()
    seen = np.ones(len(batches), bool)
    for number, batch in enumerate(batches):
        while ahead and ahead[0][1] <= batch[LAST_OFFSET]:
            aborting.add(ahead.popleft()[0])
        producer_id = int(batch[PRODUCER_ID])
        if batch[ATTRIBUTES] & CONTROL_BIT:
            seen[number] = False
            if producer_id in aborting and _is_abort_marker(data, batch):
                aborting.discard(producer_id)
        elif batch[ATTRIBUTES] & TRANSACTIONAL_BIT and producer_id in aborting:
            seen[number] = False
    return seen


def _is_abort_marker(data: Numbers, batch: Numbers) -> bool:
    for record in decode_records(memoryview(data)[batch[POSITION] : batch[END]]):
        return record.key is not None and int.from_bytes(record.key[2:4], "big") == ABORT_MARKER
    return False


def _groups(batches: Numbers) -> Iterator[Numbers]:
    """Runs of batches of a bounded number of records."""
    if not len(batches):
        return
    counts = batches[:, COUNT]
    if counts.min() < 0 or counts.max() * RECORD_BYTES_MIN > DECOMPRESSED_BYTES_MAX:
        raise Malformed(_REASONS[kernels.BAD_COUNT])
    edges = np.flatnonzero(np.diff(np.cumsum(counts) // ROWS_MAX)) + 1
    yield from np.split(batches, edges)


def _opened(data: Numbers, batches: Numbers) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """The bytes that hold the records, where in them each batch's lie, and the batches; in pieces if they inflate."""
    codecs = batches[:, ATTRIBUTES] & COMPRESSION_MASK
    if not codecs.any():
        yield data, np.stack((batches[:, POSITION] + HEADER_BYTES, batches[:, END]), axis=1), batches
        return
    view, inflater = memoryview(data), _inflater()
    spans: list[tuple[int, int]] = []
    first = 0
    starts, ends = (batches[:, POSITION] + HEADER_BYTES).tolist(), batches[:, END].tolist()
    for number, (codec, start, end) in enumerate(zip(codecs.tolist(), starts, ends, strict=True), start=1):
        # A batch that compaction left empty has nothing to inflate, whatever codec it names.
        spans.append(inflater.add(codec, view[start:end]) if start < end else (inflater.size, inflater.size))
        if inflater.size >= INFLATED_BYTES_MAX or number == len(batches):
            yield inflater.take(), np.array(spans, np.int64), batches[first:number]
            spans, first = [], number


def _inflater() -> Inflater:
    found: Inflater | None = getattr(_thread, "inflater", None)
    if found is None:
        found = _thread.inflater = Inflater()
    return found


def _index(
    data: Numbers, spans: Numbers, batches: Numbers, topic: str, partition: int, first_offset: int, last_offset: int
) -> Iterator[Rows]:
    fitting = np.minimum(batches[:, COUNT], (spans[:, 1] - spans[:, 0]) // RECORD_BYTES_MIN)
    room, place, status = max(1, min(int(fitting.sum()), INDEX_ROWS_MAX)), np.zeros(3, np.int64), TABLE_FULL
    while status == TABLE_FULL:
        index, sums = np.empty((INDEX_COLUMNS, room), np.int64), np.zeros(4, np.int64)
        taken, status = kernels.index_records(data, spans, batches, first_offset, last_offset, index, sums, place)
        if status not in (kernels.OK, TABLE_FULL):
            raise Malformed(f"{_REASONS[status]} (in the batch at offset {batches[taken, BASE_OFFSET]})")
        count = int(sums[ROWS])
        kept = index[:, :count]
        if count * FEW_OF < room:
            kept = kept.copy()  # columns are views of it: a few rows must not keep the index of all alive
        yield Rows(topic, partition, data, kept, [int(number) for number in sums], count)
