"""Mending a data directory that no broker uses: ends damaged logs at the damage, removes what a broker makes again.

In: findings. Out: steps that say what they would do, and do it when run. The cutting is storage's own salvage, the
same that a broker's recovery uses: what is cut off stays beside the log in `*.corrupt` files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runnel.cli.offline.checking import Known, PartitionReport
from runnel.cli.offline.data_dir import HIGH_WATERMARKS, DataDirFacts, is_in_use
from runnel.cli.offline.findings import Cut, LogFinding, Remove
from runnel.cli.offline.places import PartitionDir, PathWrong, base_offset, segments
from runnel.cli.output import counted, human_bytes
from runnel.storage.checkpoints import PARTITION_METADATA_NAME, decode_partition_metadata
from runnel.storage.config import LogConfig
from runnel.storage.directory import LOG_STARTS, RECOVERY_POINTS, DataDirectory
from runnel.storage.files import OsFiles
from runnel.storage.handles import HandleCache
from runnel.storage.log import Log


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do; `place` is the partition that it is done to, if it is one."""

    text: str
    action: Cut | Remove
    place: PartitionDir | None = None
    known: Known | None = None


def plan_repairs(facts: DataDirFacts | None, reports: Sequence[PartitionReport]) -> list[Step]:
    """What would mend everything that can be mended, in the order in which it is to be done."""
    steps = [_remove(finding.repair) for finding in (facts.findings if facts else []) if _is_remove(finding)]
    for report in reports:
        known = facts.of(report.place) if facts else Known()
        steps += [
            _remove(finding.repair, report.place) for finding in report.findings if _is_remove(finding)
        ]  # before the cut, which makes them again
        steps += _cuts(report, known)
    return steps


def _is_remove(finding: LogFinding) -> bool:
    return isinstance(finding.repair, Remove)


def _remove(action: Cut | Remove | None, place: PartitionDir | None = None) -> Step:
    if not isinstance(action, Remove):
        raise TypeError(f"{action} removes nothing")
    return Step(f"remove {action.path}: a broker makes it again", action, place)


def _cuts(report: PartitionReport, known: Known) -> Iterator[Step]:
    for finding in report.findings:
        action = finding.repair
        if not isinstance(action, Cut):
            continue
        later = [path for path in segments(action.folder) if base_offset(path) > base_offset(action.segment)]
        rest_bytes = action.segment.stat().st_size - action.position + sum(path.stat().st_size for path in later)
        lost = max(0, report.end_offset - action.offset)
        consequence = f"; {counted(lost, 'record')} or so are then no longer in the log" if lost else ""
        text = (
            f"end {report.place} at offset {action.offset}: {human_bytes(rest_bytes)} after it go into *.corrupt files "
            f"beside it{consequence}"
        )
        yield Step(text, action, report.place, known)


def run_repairs(facts: DataDirFacts | None, steps: Sequence[Step]) -> Iterator[Step]:
    """Do the steps, one by one, while holding the data directory; PathWrong if a broker has it."""
    files = OsFiles()
    if facts is not None and is_in_use(facts.path):
        raise PathWrong(f"a broker is using {facts.path}: stop it first; nothing was changed")
    lock = files.lock(facts.path) if facts is not None else None
    try:
        for step in steps:
            if isinstance(step.action, Remove):
                step.action.path.unlink(missing_ok=True)
            elif step.place is not None:
                _cut(step.action, step.place, step.known or Known(), facts, files)
            yield step
    finally:
        if lock is not None:
            lock.release()


def _cut(action: Cut, place: PartitionDir, known: Known, facts: DataDirFacts | None, files: OsFiles) -> None:
    topic_id = known.topic_id
    metadata = place.path / PARTITION_METADATA_NAME
    if metadata.exists():
        topic_id = decode_partition_metadata(metadata.read_bytes()) or topic_id
    if topic_id is None:
        raise PathWrong(f"{place.path} does not say which topic it belongs to ({PARTITION_METADATA_NAME} is missing)")
    log = Log.open(
        place.path,
        topic_id,
        LogConfig(),
        files=files,
        handles=HandleCache(),
        clean=False,
        now_ms=round(time.time() * 1000),
        log_start_offset=known.log_start,
        recovery_point=_recovery_point(action),
        cleaned_offset=None if known.gaps_below == 0 else 0,  # 0: gaps are compaction's, wherever they are
        salvage=True,
    )
    log.close(clean=True)
    if facts is not None:
        _lower_marks(facts.path, place, log.end_offset, files)


def _recovery_point(action: Cut) -> int:
    """Makes recovery read from the damaged segment on, and take what it cuts for bytes that were durable.

    Recovery begins at the last segment that starts at or before this point, and keeps aside what it cuts below it.
    """
    later = [base_offset(path) for path in segments(action.folder) if base_offset(path) > base_offset(action.segment)]
    return min([action.offset + 1, *(start - 1 for start in later)])


def _lower_marks(path: Path, place: PartitionDir, end_offset: int, files: OsFiles) -> None:
    """No checkpoint may promise more than there is now."""
    directory, key = DataDirectory(path, files), (place.topic, place.partition)
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS):
        offsets = directory.read_checkpoint(name)
        if offsets.get(key, -1) > end_offset:
            directory.write_checkpoint(name, {**offsets, key: end_offset})
