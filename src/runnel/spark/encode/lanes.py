"""A batch that fills: records of one partition until it is large enough to send.

In: rows. Out: sealed batches, compressed if wanted, ready for a Produce request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from runnel.client.metadata import TopicPartition
from runnel.spark.decode.kernels import HEADER_BYTES
from runnel.spark.encode.kernels import append_records, seal
from runnel.spark.encode.rows import Numbers, Rows, describe_row
from runnel.wire.batch import Record, RecordInput, decode_records, encode_batch
from runnel.wire.compression import compress

CAPACITY_FIRST = 16 << 10
CAPACITY_GROWTH = 4


@dataclass(slots=True, eq=False)
class Batch:
    """Records of one partition, not yet in any order with other batches: `sealed` gives it its place."""

    target: TopicPartition
    data: Numbers
    end: int
    count: int
    base_timestamp: int
    max_timestamp: int
    numbers: list[Numbers]
    """The numbers of its rows within the task, in pieces."""

    def sealed(self, compression: int, producer_id: int, producer_epoch: int, base_sequence: int) -> memoryview:
        data, end = self.data, self.end
        if compression:
            packed = compress(compression, memoryview(data)[HEADER_BYTES:end])
            end = HEADER_BYTES + len(packed)
            data = np.empty(end, np.uint8)
            data[HEADER_BYTES:] = np.frombuffer(packed, np.uint8)
        seal(
            data,
            end,
            compression,
            self.count,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
        )
        return memoryview(data)[:end]

    def row(self, index: int) -> str:
        """What to call a row of it in a message. Slow, as `halved` is: the records are decoded."""
        return describe_row(int(np.concatenate(self.numbers)[index]), self._records()[index].key)

    def halved(self) -> list[Batch]:
        """The same records in two batches. Rare and slow: decoded and encoded again by the plain codec."""
        records: list[RecordInput] = [
            (record.timestamp, record.key, record.value, record.headers) for record in self._records()
        ]
        numbers, middle = np.concatenate(self.numbers), len(records) // 2
        return [self._of(records[:middle], numbers[:middle]), self._of(records[middle:], numbers[middle:])]

    def _records(self) -> list[Record]:
        return decode_records(self.sealed(0, -1, -1, -1))

    def _of(self, records: list[RecordInput], numbers: Numbers) -> Batch:
        data = np.frombuffer(encode_batch(records), np.uint8)
        return Batch(self.target, data, len(data), len(records), records[0][0], records[-1][0], [numbers])


class Lane:
    """Where the records of one partition gather."""

    def __init__(self, target: TopicPartition, batch_bytes: int) -> None:
        self.target = target
        # A limit below any batch's header leaves room for nothing: each record gets a batch of its own.
        self._limit = max(batch_bytes, HEADER_BYTES)
        self._start()

    def _start(self) -> None:
        self._data: Any = np.empty(min(CAPACITY_FIRST, self._limit), np.uint8)
        self._end = HEADER_BYTES
        self._count = 0
        self._base_timestamp = 0
        self._numbers: list[Numbers] = []

    @property
    def size_bytes(self) -> int:
        return self._end if self._count else 0

    def add(self, rows: Rows, wanted: Numbers, now_ms: int) -> list[Batch]:
        """Take the wanted rows; answers the batches that became full on the way."""
        full: list[Batch] = []
        at = 0
        while at < len(wanted):
            if not self._count:
                self._base_timestamp = now_ms
            taken, self._end, missing = append_records(
                self._data,
                self._end,
                len(self._data),
                wanted[at:],
                rows.fields,
                rows.keys,
                rows.values,
                rows.headers,
                rows.header_keys,
                rows.header_values,
                now_ms - self._base_timestamp,
                self._count,
            )
            self._count += taken
            self._numbers.append(rows.first_number + wanted[at : at + taken])
            self._last_timestamp = now_ms
            at += taken
            if missing:
                full += self._make_room(missing)
        return full

    def _make_room(self, size: int) -> list[Batch]:
        """Grow up to the limit; then begin a new batch. A record larger than the limit gets one of its own."""
        needed = self._end + size
        if needed <= self._limit or not self._count:
            grown = np.empty(max(needed, min(self._limit, CAPACITY_GROWTH * len(self._data))), np.uint8)
            grown[: self._end] = self._data[: self._end]
            self._data = grown
            return []
        return self.take()

    def take(self) -> list[Batch]:
        """What has gathered, if anything; the lane is empty afterwards."""
        if not self._count:
            return []
        batch = Batch(
            self.target,
            self._data,
            self._end,
            self._count,
            self._base_timestamp,
            self._last_timestamp,
            self._numbers,
        )
        self._start()
        return [batch]
