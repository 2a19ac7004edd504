"""The check of one partition: every batch, every index, every small file of its folder.

In: a partition's folder and what the data directory says of it. Out: findings and figures. Nothing is changed; damage
does not end the walk: it goes on at the next good batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from runnel.cli.offline.findings import Cut, LogFinding, Remove
from runnel.cli.offline.index_checks import OffsetIndexCheck, TimeIndexCheck
from runnel.cli.offline.places import (
    SNAPSHOT_OF_METADATA_SUFFIX,
    PartitionDir,
    base_offset,
    current_segments,
    is_segment,
    open_for_reading,
    with_suffix,
)
from runnel.cli.output import counted
from runnel.storage.checkpoints import (
    COMPACTED_NAME,
    FIRST_SEGMENT_NAME,
    LEADER_EPOCHS_NAME,
    PARTITION_METADATA_NAME,
    decode_leader_epochs,
    decode_offset,
    decode_partition_metadata,
)
from runnel.storage.compaction.cleaning import CLEANED_SUFFIX
from runnel.storage.compaction.swapping import SWAP_SUFFIX
from runnel.storage.files import File
from runnel.storage.recovery import CORRUPT_SUFFIX
from runnel.storage.scan import Scanner, find_intact_batch
from runnel.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, NEVER, TIME_INDEX_SUFFIX
from runnel.storage.snapshots import PRODUCERS_SUFFIX, SNAPSHOT_SUFFIX, decode_producers, decode_snapshot
from runnel.wire.batch import BatchHeader, iterate_records
from runnel.wire.errors import Malformed

ZEROS_CHUNK_BYTES = 1 << 20

Advance = Callable[[int], None]


class Known(NamedTuple):
    """What the data directory says of a partition; None where it says nothing."""

    topic_id: UUID | None = None
    gaps_below: int | None = None
    """Where compaction may have left gaps between offsets; None where nobody knows."""
    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None
    was_clean: bool = False
    in_use: bool = False


@dataclass(slots=True)
class PartitionReport:
    place: PartitionDir
    findings: list[LogFinding] = field(default_factory=list)
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    start_offset: int = 0
    end_offset: int = 0


def check_partition(place: PartitionDir, known: Known, *, deep: bool, advance: Advance) -> PartitionReport:
    """Everything in a partition's folder. `advance` is told of bytes as they are read."""
    report = PartitionReport(place)
    _Walk(place, known, deep, advance, report).run()
    report.findings += _check_small_files(place, known, report)
    return report


class _Walk:
    """All segments, in order; what has to be carried from one batch to the next."""

    def __init__(
        self, place: PartitionDir, known: Known, deep: bool, advance: Advance, report: PartitionReport
    ) -> None:
        self._place = place
        self._known = known
        self._deep = deep
        self._advance = advance
        self._report = report
        self._expected: int | None = None
        self._epochs: list[tuple[int, int]] = []
        self._cut: Cut | None = None

    def run(self) -> None:
        paths = current_segments(self._place.path)
        self._report.segments = len(paths)
        self._report.start_offset = self._report.end_offset = base_offset(paths[0]) if paths else 0
        for before, path in zip((None, *paths), paths, strict=False):
            self._check_start(path, before)
            self._check_segment(path, is_last=path == paths[-1])
        self._report.end_offset = self._expected or self._report.start_offset
        self._report.findings += _check_epochs(self._place.path, self._epochs)

    def _find(self, finding: LogFinding) -> None:
        cut = finding.repair
        if isinstance(cut, Cut):
            if self._place.is_raft:
                finding = replace(finding, advice=_RAFT_ADVICE, repair=None)
            elif self._cut is not None:  # what comes after the first damage goes with it
                finding = replace(finding, repair=None)
            else:
                self._cut = cut
        self._report.findings.append(finding)

    def _check_start(self, path: Path, before: Path | None) -> None:
        start, expected = base_offset(path), self._expected
        if before is None or expected is None or start == expected:
            return
        cut = Cut(self._place.path, before, before.stat().st_size, expected)
        if start < expected:
            message = f"it starts at offset {start}, but the segment before it ends with {expected - 1}"
            self._find(LogFinding("damage", path, message, _CUT_ADVICE, 0, start, cut))
        else:
            self._gap(path, 0, start, cut)

    def _gap(self, path: Path, position: int, found: int, cut: Cut) -> None:
        missing = f"offsets {cut.offset} to {found - 1} are missing"
        if self._known.gaps_below is None:
            message = f"{missing}; in a compacted topic that is as it should be"
            self._find(LogFinding("note", path, message, None, position, cut.offset))
        elif found > self._known.gaps_below:
            self._find(LogFinding("damage", path, missing, _CUT_ADVICE, position, cut.offset, cut))

    # One segment ------------------------------------------------------------------------------------------

    def _check_segment(self, path: Path, *, is_last: bool) -> None:
        file = open_for_reading(path)
        size, position = file.size(), 0
        self._report.size_bytes += size
        offsets, times = self._index_checks(path, is_last)
        self._expected = base_offset(path)
        while position < size:
            scanner = Scanner(file, position, size, self._expected, verify=True)
            for at, header in scanner:
                self._check_batch(path, file, at, header)
                for check in (offsets, times):
                    if check is not None:
                        check.batch(at, header)
                self._advance(header.size_bytes)
            if scanner.problem is None:
                break
            following = self._damaged(path, file, scanner, size, is_last)
            self._advance((following or size) - scanner.position)
            if following is None:
                _skip(offsets, times, NEVER, NEVER)
                break
            self._expected = _offset_at(file, following)
            _skip(offsets, times, following, self._expected)
            position = following
        for finding in (*(offsets.finish() if offsets else ()), *(times.finish() if times else ())):
            self._find(finding)

    def _index_checks(self, path: Path, is_last: bool) -> tuple[OffsetIndexCheck | None, TimeIndexCheck | None]:
        """None for what is not there (a missing index is as good as none), or is being written."""
        if not is_segment(path.name) or (is_last and self._known.in_use):
            return None, None
        is_final = self._known.was_clean or not is_last
        offset_path, time_path = with_suffix(path, INDEX_SUFFIX), with_suffix(path, TIME_INDEX_SUFFIX)
        return (
            OffsetIndexCheck(offset_path, is_final) if offset_path.exists() else None,
            TimeIndexCheck(time_path, is_final) if time_path.exists() else None,
        )

    def _check_batch(self, path: Path, file: File, position: int, header: BatchHeader) -> None:
        expected = self._expected or 0
        if header.base_offset > expected:
            self._gap(path, position, header.base_offset, Cut(self._place.path, path, position, expected))
        if self._deep:
            self._check_records(path, file, position, header)
        self._expected = header.last_offset + 1
        self._report.batches += 1
        self._report.records += header.record_count
        if not self._epochs or header.leader_epoch > self._epochs[-1][0]:
            self._epochs.append((header.leader_epoch, header.base_offset))

    def _check_records(self, path: Path, file: File, position: int, header: BatchHeader) -> None:
        try:
            last = header.base_offset - 1
            for record in iterate_records(file.read(position, header.size_bytes)):
                if not last < record.offset <= header.last_offset:
                    raise Malformed(f"a record claims offset {record.offset}")
                last = record.offset
        except Malformed as error:
            message = f"the checksum is right, but the records do not parse: {error}"
            advice = "it was written so: find out which client produced it; readers stop here, and can seek past it"
            self._find(LogFinding("damage", path, message, advice, position, header.base_offset))

    def _damaged(self, path: Path, file: File, scanner: Scanner, size: int, is_last: bool) -> int | None:
        """Tell of bytes that are no batch; where the next good batch is."""
        position, expected = scanner.position, self._expected or 0
        following = find_intact_batch(file, position + 1, size, expected)
        cut = Cut(self._place.path, path, position, expected)
        if following is None and is_last and self._is_unfinished(expected):
            self._find(self._unfinished(path, file, position, size, expected, cut))
            return None
        if following is None:
            lost = f"everything from offset {expected} to the end of this file cannot be read"
            advice = _CUT_ADVICE
        else:
            resume = _offset_at(file, following)
            lost = f"offsets {expected} to {resume - 1} cannot be read ({counted(following - position, 'byte')})"
            advice = f"readers stop at offset {expected}, and can go on from {resume}; {_CUT_ADVICE}"
        message = f"damaged at position {position}: {scanner.problem}; {lost}"
        self._find(LogFinding("damage", path, message, advice, position, expected, cut))
        return following

    def _is_unfinished(self, offset: int) -> bool:
        """Whether a broker that was not stopped in order may have left this: bytes that it never called durable."""
        known = self._known
        return known.in_use or (not known.was_clean and offset >= (known.recovery_point or 0))

    def _unfinished(self, path: Path, file: File, position: int, size: int, offset: int, cut: Cut) -> LogFinding:
        amount = counted(size - position, "byte")
        if self._known.in_use:
            message = f"the last {amount} are no whole batch: the broker that runs is writing them"
            return LogFinding("note", path, message, None, position, offset)
        if _only_zeros(file, position, size):
            message = f"{amount} of zeros end the file: space taken in advance, or an unfinished write"
            return LogFinding("note", path, message, None, position, offset, cut)
        message = f"the last {amount} are an unfinished write after offset {offset - 1}: nothing that was acknowledged"
        advice = "a broker cuts them off at its next start; so does --repair"
        return LogFinding("warning", path, message, advice, position, offset, cut)


_RAFT_ADVICE = (
    "this is the log of a Raft quorum, whose voters must not forget what they acknowledged: take this controller out "
    "of the quorum, format its directory, and let it fetch everything again"
)
_CUT_ADVICE = "`runnel log verify --repair` ends the log there and keeps the rest aside; or restore it from elsewhere"


def _offset_at(file: File, position: int) -> int:
    return int.from_bytes(file.read(position, 8), "big", signed=True)


def _only_zeros(file: File, position: int, size: int) -> bool:
    for start in range(position, size, ZEROS_CHUNK_BYTES):
        if any(file.read(start, min(ZEROS_CHUNK_BYTES, size - start))):
            return False
    return True


def _skip(offsets: OffsetIndexCheck | None, times: TimeIndexCheck | None, position: int, offset: int) -> None:
    if offsets is not None:
        offsets.skip(position)
    if times is not None:
        times.skip_offsets(offset)


# Small files ----------------------------------------------------------------------------------------------


_MARKS = {
    COMPACTED_NAME: "until the next compaction a broker takes every gap between offsets for one that compaction left",
    FIRST_SEGMENT_NAME: "a broker goes without it",
}
_LEFTOVERS = {
    CORRUPT_SUFFIX: "an earlier repair kept these bytes aside; remove them when they are of no use",
    CLEANED_SUFFIX: "a compaction was cut short; a broker forgets it at its next start",
    LOG_SUFFIX + SWAP_SUFFIX: "a compaction was cut short; a broker finishes it at its next start",
}


def _check_epochs(folder: Path, seen: list[tuple[int, int]]) -> Iterator[LogFinding]:
    path = folder / LEADER_EPOCHS_NAME
    if not path.exists():
        return
    entries = decode_leader_epochs(path.read_bytes())
    advice = "a broker makes it again from the log: --repair removes it"
    if entries is None:
        yield LogFinding("warning", path, "it cannot be read as a checkpoint", advice, repair=Remove(path))
        return
    for epoch, offset in seen:
        before = [each for each in entries if each[1] <= offset]
        if before and before[-1][0] != epoch and offset >= entries[0][1]:
            message = f"it says epoch {before[-1][0]} for offset {offset}; the batch there says {epoch}"
            yield LogFinding("warning", path, message, advice, offset=offset, repair=Remove(path))
            return


def _check_small_files(place: PartitionDir, known: Known, report: PartitionReport) -> Iterator[LogFinding]:
    names = sorted(path.name for path in place.path.iterdir())
    yield from _check_identity(place, known, names)
    yield from _check_metadata_snapshots(place)
    for name in names:
        path = place.path / name
        if name.endswith((SNAPSHOT_SUFFIX, PRODUCERS_SUFFIX)) and not _is_good_snapshot(path):
            message = "the checksum or the length is wrong"
            advice = "producers are then found again from the log: --repair removes it"
            yield LogFinding("warning", path, message, advice, repair=Remove(path))
        elif name in _MARKS and decode_offset(path.read_bytes()) is None:
            yield LogFinding("warning", path, f"it cannot be read as a checkpoint; {_MARKS[name]}")
        for ending, message in _LEFTOVERS.items():
            if name.endswith(ending):
                yield LogFinding("note", path, message)
    yield from _check_marks(place, known, report)


def _check_identity(place: PartitionDir, known: Known, names: list[str]) -> Iterator[LogFinding]:
    path = place.path / PARTITION_METADATA_NAME
    if PARTITION_METADATA_NAME not in names:
        return
    found = decode_partition_metadata(path.read_bytes())
    if found is None:
        advice = "a broker writes it again: --repair removes it"
        yield LogFinding("warning", path, "it names no topic id", advice, repair=Remove(path))
    elif known.topic_id is not None and found != known.topic_id:
        advice = "it was left by a deleted topic of the same name, or copied from elsewhere"
        yield LogFinding("warning", path, "the cluster's topic of this name has another id", advice)


def _check_metadata_snapshots(place: PartitionDir) -> Iterator[LogFinding]:
    """Kafka's controllers keep the state of the cluster in files of batches beside their log."""
    for path in sorted(place.path.glob(f"*{SNAPSHOT_OF_METADATA_SUFFIX}")):
        file = open_for_reading(path)
        scanner = Scanner(file, 0, file.size(), verify=True)
        for _ in scanner:
            pass
        if scanner.problem is not None:
            message = f"damaged at position {scanner.position}: {scanner.problem}"
            yield LogFinding("damage", path, message, _RAFT_ADVICE, scanner.position)


def _is_good_snapshot(path: Path) -> bool:
    data = path.read_bytes()
    if path.name.endswith(SNAPSHOT_SUFFIX):
        return decode_snapshot(data) is not None
    return decode_producers(data, base_offset(path)) is not None


def _check_marks(place: PartitionDir, known: Known, report: PartitionReport) -> Iterator[LogFinding]:
    """What was promised to be on disk, against what is."""
    end = report.end_offset
    marks = {"known to be durable": known.recovery_point, "acknowledged": known.high_watermark}
    promised = {word: offset for word, offset in marks.items() if offset is not None and offset > end}
    if promised and not any(finding.status == "damage" for finding in report.findings):
        word, offset = max(promised.items(), key=lambda pair: pair[1])
        message = (
            f"the log ends at offset {end}, but {offset} was {word}: {counted(offset - end, 'record')} or so are lost"
        )
        yield LogFinding("damage", place.path, message, "restore the missing files from elsewhere", offset=end)
    if known.log_start is not None and known.log_start > end:
        message = f"the log should start at offset {known.log_start}, but it ends at {end}"
        yield LogFinding("warning", place.path, message, "a broker starts it afresh at that offset", offset=end)
