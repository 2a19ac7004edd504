"""New segments take the place of old ones: in memory at once, on disk step by step, and after a crash the rest.

    .cleaned     being written, or written and fsynced: worth nothing yet, removed at the next start
    .log.swap    the new segment is decided on: it stands for all offsets from its name to its last batch
    (no suffix)  the old segments are gone

The log reads the new files from the moment of the swap, whatever they are called; their handles follow the names.
Readers that have old files keep them. Old and new files tell the same, so it does not matter which of them a
crash leaves: until the `.log.swap` is durable it is the old ones, from then on the new ones.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from runnel.storage.checkpoints import COMPACTED_NAME, decode_offset, encode_offset
from runnel.storage.compaction.cleaning import CLEANED_SUFFIX, Cleaned, Summary
from runnel.storage.errors import LogCorrupt
from runnel.storage.files import Files
from runnel.storage.scan import ANYWHERE, Scanner
from runnel.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, Segment

if TYPE_CHECKING:
    from runnel.storage.log import Log

SWAP_SUFFIX = ".swap"

logger = logging.getLogger("runnel.storage")


def swap(log: Log, cleaned: Cleaned, truncations: int) -> bool:
    """Let the log continue on the new segment; the files follow in a file job. False, and nothing done, if the old
    segments are no longer what they were when the log had seen that many truncations."""
    old = _sources_in(log, cleaned)
    if not old or log.offline is not None or log.truncations != truncations:
        return False
    new = Segment(log.path, old[0].base_offset, log.files, log.handles, CLEANED_SUFFIX)
    new.size_bytes = cleaned.size_bytes
    new.end_offset = old[-1].end_offset
    new.index_interval_bytes = log.config.index_interval_bytes
    number = log.segments.index(old[0])
    log.segments = [*log.segments[:number], new, *log.segments[number + len(old) :]]
    log.size_bytes += new.size_bytes - sum(segment.size_bytes for segment in old)
    gaps_below = max(new.end_offset, log.cleaned_offset or 0)
    log.gaps_below = max(log.gaps_below, gaps_below)
    log.hints = {}
    log.file_jobs.put(GapsJob(log.files, log.path, gaps_below))
    log.file_jobs.put(SwapJob(log.files, log.path, new, [segment.base_offset for segment in old]))
    for segment in old:
        segment.detach()
    return True


def finish(log: Log, summary: Summary, truncations: int) -> bool:
    """The round is over, and all its swaps were made: remember how far the log is clean."""
    if log.offline is not None or log.truncations != truncations:
        return False
    if summary.cleaned_offset > 0:
        log.cleaned_offset = summary.cleaned_offset
        log.gaps_below = max(log.gaps_below, summary.cleaned_offset)
        log.file_jobs.put(GapsJob(log.files, log.path, summary.cleaned_offset))
    return True


def gaps_job(log: Log, offset: int) -> GapsJob:
    """To be run before a `swap` or `finish` up to this offset, whose own job then has nothing left to do: where the
    disk is too full even for that, the round ends, and nothing has happened to the log."""
    return GapsJob(log.files, log.path, max(offset, log.cleaned_offset or 0))


def _sources_in(log: Log, cleaned: Cleaned) -> list[Segment]:
    wanted = [source.base_offset for source in cleaned.sources]
    found = [segment for segment in log.segments if wanted[0] <= segment.base_offset <= wanted[-1]]
    as_they_were = [(segment.base_offset, segment.size_bytes, segment.end_offset) for segment in found]
    return found if as_they_were == [tuple(source) for source in cleaned.sources] else []


class GapsJob:
    """Note up to where offsets may be missing. Durable before they are: recovery must know them from lost bytes."""

    __slots__ = ("_directory", "_gaps_below", "_tree")

    def __init__(self, tree: Files, directory: str, gaps_below: int) -> None:
        self._tree = tree
        self._directory = directory
        self._gaps_below = gaps_below

    def run(self) -> None:
        if self._gaps_below > read_gaps_below(self._tree, self._directory):
            self._tree.write_atomic(f"{self._directory}/{COMPACTED_NAME}", encode_offset(self._gaps_below), sync=True)


class SwapJob:
    """Give the new segment its names and remove the old ones. Run it in any one thread; what fails here is finished
    at the next start, or undone."""

    __slots__ = ("_directory", "_old", "_segment", "_tree")

    def __init__(self, tree: Files, directory: str, segment: Segment, old: Sequence[int]) -> None:
        self._tree = tree
        self._directory = directory
        self._segment = segment
        self._old = old

    def run(self) -> None:
        for handle in self._segment.file_handles:  # the log file last: its name is what counts
            handle.rename(handle.path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
        self._tree.sync_directory(self._directory)
        gone = self._old_paths()
        for path in gone:
            with contextlib.suppress(FileNotFoundError):
                self._tree.rename(path, path + DELETED_SUFFIX)
        for handle in self._segment.file_handles[:-1]:
            handle.rename(handle.path.removesuffix(SWAP_SUFFIX))
        self._tree.sync_directory(self._directory)
        log_file = self._segment.log
        log_file.rename(log_file.path.removesuffix(SWAP_SUFFIX))
        self._tree.sync_directory(self._directory)
        for path in gone:
            with contextlib.suppress(FileNotFoundError):
                self._tree.remove(path + DELETED_SUFFIX)

    def _old_paths(self) -> list[str]:
        """All but those of the first: the new files are renamed over them."""
        later = (offset for offset in self._old if offset != self._segment.base_offset)
        return [_path(self._directory, offset, suffix) for offset in later for suffix in SEGMENT_SUFFIXES]


def read_gaps_below(tree: Files, directory: str) -> int:
    """0 if the log was never compacted; anywhere if the file that tells is damaged."""
    try:
        found = decode_offset(tree.read_bytes(f"{directory}/{COMPACTED_NAME}"))
    except FileNotFoundError:
        return 0
    return ANYWHERE if found is None else found


def _path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


# --- after a crash ----------------------------------------------------------------------------------------------


def finish_swaps(files: Files, directory: str, names: Iterable[str]) -> None:
    """Undo what was not decided on and finish what was. LogCorrupt, and nothing changed, if a `.swap` file is
    damaged: what it replaces may be gone."""
    by_name = {name: int(name[:20]) for name in names if name[:20].isdigit()}
    swapped = sorted(offset for name, offset in by_name.items() if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    ends = [_end_of(files, directory, base_offset) for base_offset in swapped]
    _undo(files, directory, by_name, swapped)
    for base_offset, end_offset in zip(swapped, ends, strict=True):
        _finish(files, directory, by_name, base_offset, end_offset)


def _end_of(files: Files, directory: str, base_offset: int) -> int:
    path = _path(directory, base_offset, LOG_SUFFIX + SWAP_SUFFIX)
    file = files.open(path)
    scanner = Scanner(file, 0, file.size(), base_offset, verify=True)
    for _ in scanner:
        pass
    if scanner.problem is not None:
        raise LogCorrupt(f"{path} is damaged at position {scanner.position}: {scanner.problem}; nothing was changed")
    return scanner.expected_offset


def _undo(files: Files, directory: str, by_name: Mapping[str, int], swapped: Sequence[int]) -> None:
    for name, offset in by_name.items():
        unfinished = name.endswith(SWAP_SUFFIX) and offset not in swapped
        if unfinished or name.endswith(CLEANED_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                files.remove(f"{directory}/{name}")


def _finish(files: Files, directory: str, by_name: Mapping[str, int], base_offset: int, end_offset: int) -> None:
    logger.info("%s: compaction of offsets %d to %d is finished after a crash", directory, base_offset, end_offset - 1)
    for name, offset in by_name.items():
        if name.endswith(SEGMENT_SUFFIXES) and base_offset < offset < end_offset:
            with contextlib.suppress(FileNotFoundError):
                files.remove(f"{directory}/{name}")
    for suffix in SEGMENT_SUFFIXES:
        if suffix == LOG_SUFFIX:
            continue
        path = _path(directory, base_offset, suffix)
        with contextlib.suppress(FileNotFoundError):  # it may be that of the old segment: rebuilt when first used
            files.remove(path)
        if files.exists(path + SWAP_SUFFIX):
            files.rename(path + SWAP_SUFFIX, path)
    files.sync_directory(directory)
    path = _path(directory, base_offset, LOG_SUFFIX)
    files.rename(path + SWAP_SUFFIX, path)
    files.sync_directory(directory)
