"""Proof that a lake table equals its topic, up to an offset vector: counts, gaps, duplicates, checksums.

In: a table, its dead letters, a topic, and where to stop. Out: a `Proof` per partition. Both sides become arrays of
(offset, checksum), which are then compared as sets; nothing is sampled. At its peak it takes about 130 bytes
of memory per record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from runnel.client.metadata import TopicPartition
from runnel.spark.brokers.cluster import Cluster
from runnel.spark.errors import OptionError
from runnel.spark.lake.options import Destination
from runnel.spark.lake.tables import existing_table
from runnel.spark.planning.offsets import OffsetReader
from runnel.spark.positions import EARLIEST, LATEST, Offsets
from runnel.spark.reading.ranges import OffsetRange
from runnel.spark.reading.task import ReadPlan, read_plan, read_task
from runnel.spark.source_options import parse_source_options

PLACE = ("topic", "partition", "offset")
ABSENT = b"\xff" * 4
"""In place of the length: no key or value is that long."""

Progress = Callable[[int, int], None]
"""Called with how many rows and bytes were read."""


class Records(NamedTuple):
    """Of one partition, sorted by offset. Checksums are all zero where content is not compared."""

    offsets: np.ndarray
    checksums: np.ndarray


@dataclass(frozen=True, slots=True)
class Proof:
    """What comparing one partition showed. Offsets before `first` have left the topic and cannot be compared; `gone` of
    them did so before the table had them."""

    target: TopicPartition
    first: int
    until: int
    topic_records: int
    table_rows: int
    dead_letters: int
    unchecked: int
    gone: int = 0
    missing: list[int] = field(default_factory=list)
    duplicated: list[int] = field(default_factory=list)
    unexpected: list[int] = field(default_factory=list)
    different: list[int] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not (self.gone or self.missing or self.duplicated or self.unexpected or self.different)


class Verdict(NamedTuple):
    proofs: list[Proof]
    compares_content: bool

    @property
    def holds(self) -> bool:
        return all(proof.holds for proof in self.proofs)


def verify(
    destination: Destination,
    dead_letters: Destination | None,
    options: Mapping[str, str],
    *,
    until: Offsets | None = None,
    is_compacted: bool = False,
    is_upserted: bool = False,
    order_column: str = "offset",
    progress: Progress = lambda rows, size_bytes: None,
) -> Verdict:
    """Compare. `options` are those of the source (bootstrap servers, subscribe). Without `until`, up to what the table
    has of each partition, and where it has nothing, all of it; a compacted topic may have dropped records that the
    table still holds. A table of upserts has the newest record of each key, by `order_column` (offset or timestamp) as
    the query that wrote it, and is compared up to the topic's end."""
    parsed = parse_source_options(options)
    content = all(_has_content(place) for place in (destination, dead_letters) if place is not None)
    rows = _table_records(destination, content, progress)
    dead = _table_records(dead_letters, content, progress) if dead_letters is not None else {}
    plan = read_plan(parsed)
    with Cluster(parsed.brokers) as cluster:
        reader = OffsetReader(cluster, parsed)
        latest = reader.latest()
        firsts = reader.earliest(latest)
        if until is not None:
            ends = _ends_given(until, firsts, latest)
        else:
            ends = latest if is_upserted else _ends_of_table(latest, rows, dead)
        ranges = reader.ranges({t: min(firsts[t], ends[t]) for t in ends}, ends)
    topics = {target.topic for target in latest}
    if rows and topics.isdisjoint(target.topic for target in rows):
        raise OptionError(
            f"{destination.path} has no row of {', '.join(sorted(topics)) or 'such a topic'}: its rows are of "
            f"{', '.join(sorted({target.topic for target in rows}))}"
        )
    proofs = [
        _unexpected(target, rows, dead)
        for target in sorted(rows.keys() | dead.keys())
        if target.topic in topics and target not in latest
    ]
    ranges.sort(key=lambda row: row.target)
    there = {row.target: row._replace(until=min(row.until, latest[row.target])) for row in ranges}
    newest = _newest_records(plan, there.values(), order_column, content, progress) if is_upserted else {}
    for row in ranges:
        end = latest[row.target]
        if is_upserted:
            topic = newest.get(row.target, NOTHING)
        else:
            topic = _topic_records(plan, there[row.target], content, progress)
        table, letters = rows.get(row.target, NOTHING), dead.get(row.target, NOTHING)
        proof = _compare(row, end, topic, table, letters, is_compacted)
        gone = max(0, firsts[row.target] - row.until) if until is None else 0
        proofs.append(replace(proof, gone=gone))
    return Verdict(proofs, content)


def _has_content(destination: Destination) -> bool:
    """Whether there are keys and values to compare; OptionError where not even offsets are."""
    schema = existing_table(destination).schema()
    lacking = [name for name in PLACE if name not in schema.names]
    if lacking:
        raise OptionError(
            f"{destination.path} has no column {', '.join(lacking)}: without them nothing can be compared"
        )
    return all(name in schema.names and _is_raw(schema.field(name).type) for name in ("key", "value"))


def _is_raw(kind: pa.DataType) -> bool:
    """Text or bytes: a value that was decoded has no checksum to compare."""
    return str(kind).removeprefix("large_").removesuffix("_view") in ("binary", "string")


def _unexpected(target: TopicPartition, rows: _ByPartition, dead: _ByPartition) -> Proof:
    """A partition that the topic does not have."""
    table, letters = rows.get(target, NOTHING), dead.get(target, NOTHING)
    offsets = _listed(np.union1d(table.offsets, letters.offsets))
    return Proof(target, 0, 0, 0, len(table.offsets), len(letters.offsets), 0, unexpected=offsets)


def _ends_of_table(latest: Offsets, rows: _ByPartition, dead: _ByPartition) -> Offsets:
    """A partition of which the table has nothing ends where the topic does: that nothing is there proves nothing."""
    return {
        target: max((int(part.offsets[-1]) + 1 for part in _parts(target, rows, dead)), default=end)
        for target, end in latest.items()
    }


def _ends_given(until: Offsets, firsts: Offsets, latest: Offsets) -> Offsets:
    if until.keys() != latest.keys():
        named, there = (", ".join(map(str, sorted(each))) or "none" for each in (until, latest))
        raise OptionError(
            f"the offsets must name every partition of the topic: they name {named}; there are {there}. Write 0 for "
            "a partition that came later, -1 for the end"
        )
    edges = {LATEST: latest, EARLIEST: firsts}
    ends = {target: edges[offset][target] if offset in edges else offset for target, offset in until.items()}
    for target, end in sorted(ends.items()):
        if not 0 <= end <= latest[target]:
            raise OptionError(f"offset {end} of {target} is not in the topic, which ends at {latest[target]}")
    return ends


def _parts(target: TopicPartition, *sides: _ByPartition) -> list[Records]:
    return [side[target] for side in sides if target in side and len(side[target].offsets)]


_ByPartition = dict[TopicPartition, Records]
NOTHING = Records(np.empty(0, np.int64), np.empty(0, np.uint32))


def _table_records(destination: Destination, content: bool, progress: Progress) -> _ByPartition:
    columns = [*PLACE, *(["key", "value"] if content else [])]
    gathered: defaultdict[TopicPartition, list[Records]] = defaultdict(list)
    for batch in existing_table(destination).scan(columns):
        if any(batch[name].null_count for name in PLACE):
            raise OptionError(f"{destination.path} has rows without topic, partition or offset: they are of no record")
        for target, part in _by_partition(batch):
            gathered[target].append(_records(part, content))
        progress(batch.num_rows, batch.nbytes)
    return {target: _sorted(parts) for target, parts in gathered.items()}


def _topic_records(plan: ReadPlan, row: OffsetRange, content: bool, progress: Progress) -> Records:
    fields = [("offset", pa.int64()), *([("key", pa.binary()), ("value", pa.binary())] if content else [])]
    parts: list[Records] = []
    for batch in read_task(plan, (row,), pa.schema(fields)) if row.size > 0 else ():
        parts.append(_records(batch, content))
        progress(batch.num_rows, batch.nbytes)
    return _sorted(parts)


def _newest_records(
    plan: ReadPlan, rows: Iterable[OffsetRange], order_column: str, content: bool, progress: Progress
) -> _ByPartition:
    """The last record of each key, in whichever partition, unless that is a tombstone: what upserts leave of a topic.
    Of equal ones, in `order_column`, the one that is read last."""
    names = ("offset", "timestamp", "key", "value")
    fields = pa.schema(zip(names, (pa.int64(), pa.timestamp("us", "UTC"), pa.binary(), pa.binary()), strict=True))
    newest: dict[bytes | None, _Newest] = {}
    for row in rows:
        for batch in read_task(plan, (row,), fields) if row.size > 0 else ():
            orders = batch[order_column].cast(pa.int64()).to_pylist()
            columns = (batch[name].to_pylist() for name in ("offset", "key", "value"))
            for order, offset, key, value in zip(orders, *columns, strict=True):
                if key not in newest or order >= newest[key].order:
                    checksum = _checksum(key, value) if content else 0
                    newest[key] = _Newest(order, row.target, offset, None if value is None else checksum)
            progress(batch.num_rows, batch.nbytes)
    return _records_left(newest.values())


class _Newest(NamedTuple):
    """`checksum` is None for a tombstone."""

    order: int
    target: TopicPartition
    offset: int
    checksum: int | None


def _records_left(newest: Iterable[_Newest]) -> _ByPartition:
    left: defaultdict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for record in newest:
        if record.checksum is not None:
            left[record.target].append((record.offset, record.checksum))
    columns = {target: np.array(pairs, np.int64).T for target, pairs in left.items()}
    return {
        target: _sorted([Records(offsets, checksums.astype(np.uint32))])
        for target, (offsets, checksums) in columns.items()
    }


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    import pyarrow.compute as pc

    pairs = pa.Table.from_batches([batch.select(["topic", "partition"])]).group_by(["topic", "partition"]).aggregate([])
    for pair in pairs.to_pylist():
        same = pc.and_(pc.equal(batch["topic"], pair["topic"]), pc.equal(batch["partition"], pair["partition"]))
        yield TopicPartition(pair["topic"], pair["partition"]), batch.filter(same) if pairs.num_rows > 1 else batch


def _records(batch: pa.RecordBatch, content: bool) -> Records:
    offsets = batch["offset"].to_numpy(zero_copy_only=False).astype(np.int64)
    if not content:
        return Records(offsets, np.zeros(len(offsets), np.uint32))
    # As bytes: what Spark cast to text need not be text.
    pairs = zip(*(batch[name].cast(pa.large_binary()).to_pylist() for name in ("key", "value")), strict=True)
    return Records(offsets, np.fromiter((_checksum(key, value) for key, value in pairs), np.uint32, len(offsets)))


def _checksum(key: bytes | None, value: bytes | None) -> int:
    """Null and empty differ, and so do keys and values that only end elsewhere."""
    checksum = 0
    for data in (key, value):
        checksum = crc32c(ABSENT if data is None else len(data).to_bytes(4, "big") + data, checksum)
    return checksum


def _sorted(parts: Iterable[Records]) -> Records:
    parts = list(parts)
    if not parts:
        return NOTHING
    offsets = np.concatenate([part.offsets for part in parts])
    checksums = np.concatenate([part.checksums for part in parts])
    order = np.argsort(offsets, kind="stable")
    return Records(offsets[order], checksums[order])


def _compare(row: OffsetRange, end: int, topic: Records, table: Records, dead: Records, is_compacted: bool) -> Proof:
    """`end` is the topic's own: whatever was compacted away lay before it."""
    held = _sorted([table, dead])
    checked = _between(held, row.start, row.until)
    unique, first_index = np.unique(checked.offsets, return_index=True)
    # Also where the topic has nothing left to compare with.
    every, counts = np.unique(_between(held, 0, row.until).offsets, return_counts=True)
    impossible = np.unique(held.offsets[held.offsets < 0])
    common, in_topic, in_table = np.intersect1d(topic.offsets, unique, assume_unique=True, return_indices=True)
    differs = topic.checksums[in_topic] != checked.checksums[first_index[in_table]]
    extra = np.setdiff1d(unique, topic.offsets, assume_unique=True)
    return Proof(
        row.target,
        row.start,
        row.until,
        len(topic.offsets),
        len(_between(table, 0, row.until).offsets),
        len(_between(dead, 0, row.until).offsets),
        int(np.searchsorted(held.offsets, row.start)),
        missing=_listed(np.setdiff1d(topic.offsets, unique, assume_unique=True)),
        duplicated=_listed(every[counts > 1]),
        unexpected=_listed(np.concatenate((impossible, extra[extra >= end] if is_compacted else extra))),
        different=_listed(common[differs]),
    )


def _between(records: Records, start: int, until: int) -> Records:
    low, high = np.searchsorted(records.offsets, (start, until))
    return Records(records.offsets[low:high], records.checksums[low:high])


def _listed(offsets: np.ndarray) -> list[int]:
    return [int(offset) for offset in offsets]
