"""Direct reads: sealed segments straight from the broker's files, without loading the broker.

In: a data directory that this executor can see, and an offset range. Out: `Piece`s from the start of the range as far
as sealed segments go, and the offset from which the broker must be asked. The end of the range comes from the broker,
so nothing is read that is not committed.

Files may be deleted or replaced by compacted ones at any moment, without a word to us:
- Those that a range needs are opened together, some dozens at a time, and all again if one is gone by then; what is
  open stays readable.
- While the broker swaps compacted segments in (a `.swap` file is there), some names are old and some are new, and a
  segment may seem to be missing: the broker reads for us. A listing is not atomic either, so it must come out the same
  twice: whoever misses a segment in one has to see the `.swap`, or the new file, in the next.
- On a shared disk the next segment may be seen before all of this one is: a file that does not reach up to the next
  one, or ends in the middle of a batch, is the broker's from there. Compaction keeps the last header of each.
- An index may already be the new one when its log is still the old one: what it points to is checked, CRC and all.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np

from runnel.spark.decode.chunk import Chunk
from runnel.spark.decode.kernels import ATTRIBUTES, CRC_MATCHES
from runnel.spark.errors import OptionError
from runnel.spark.kafka_options import FetchSettings
from runnel.spark.reading.ranges import OffsetRange, Piece
from runnel.wire.batch import HEADER_BYTES, TRANSACTIONAL_BIT, check_crc, read_header
from runnel.wire.errors import Malformed

WINDOW_BYTES = 4 << 20
OPEN_ATTEMPTS = 5
SEGMENTS_OPEN_MAX = 64
"""A topic may have thousands, and a process may have a thousand files open."""
LOG_SUFFIX, INDEX_SUFFIX, SWAP_SUFFIX = ".log", ".index", ".swap"
_INDEX_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])


class SegmentReader(Protocol):
    """What can yield the sealed beginning of a range: files here, objects of a tier elsewhere."""

    def pieces(self, wanted: OffsetRange) -> Generator[Piece, None, int]:
        """Pieces in offset order from `wanted.start` on; returns the offset after what was yielded."""
        ...


def sealed_segments(data_dir: str | None, settings: FetchSettings) -> SegmentReader | None:
    """Who reads them, where anybody but the broker can: the seam at which the objects of a tier come in."""
    return None if data_dir is None else SegmentFiles(data_dir, settings)


class SegmentFiles:
    """Segments in a broker's data directory, in Kafka's format."""

    def __init__(self, data_dir: str, settings: FetchSettings) -> None:
        self._data_dir = Path(data_dir)
        self._settings = settings
        if not self._data_dir.is_dir():
            raise OptionError(
                f"option runnel.data.dir: {data_dir} is no folder on this executor; mount the broker's data directory "
                "there, or leave the option out to read from the broker"
            )

    def pieces(self, wanted: OffsetRange) -> Generator[Piece, None, int]:
        position = wanted.start
        while position < wanted.until:
            with ExitStack() as stack:
                segments = self._open(wanted._replace(start=position), stack)
                if not segments:
                    break
                for segment in segments:
                    position = yield from self._read(segment, wanted._replace(start=position))
                    if position < segment.until_offset:
                        return position
        return position

    def _read(self, segment: Segment, wanted: OffsetRange) -> Generator[Piece, None, int]:
        """As far as the segment goes, or the range, or files can be trusted."""
        position = wanted.start
        try:
            for chunk in segment.chunks(position, self._settings.check_crc):
                if self._needs_broker(chunk):
                    break
                yield Piece(wanted.target, chunk, position, wanted.until, None)
                position = max(position, chunk.next_offset)
                if position >= wanted.until:
                    break
        except (Malformed, OSError):
            pass  # the broker will say what is wrong with it; shared disks take back files that are open (ESTALE)
        return position

    def _needs_broker(self, chunk: Chunk) -> bool:
        """Which transactions were aborted is the broker's to say, and what stands where a file is damaged."""
        batches = chunk.batches
        if not batches[:, CRC_MATCHES].all():
            return True
        return bool(self._settings.isolation and (batches[:, ATTRIBUTES] & TRANSACTIONAL_BIT).any())

    def _open(self, wanted: OffsetRange, stack: ExitStack) -> list[Segment]:
        """The next sealed segments of the range, all of them open; none where they are not to be had."""
        folder = self._data_dir / f"{wanted.target.topic}-{wanted.target.partition}"
        for _ in range(OPEN_ATTEMPTS):
            try:
                if _topic_id(folder) != wanted.topic_id:
                    return []
                before, after = os.listdir(folder), os.listdir(folder)
                if any(name.endswith(SWAP_SUFFIX) for name in (*before, *after)):
                    return []
                sealed = _sealed(after, wanted)
                if sealed == _sealed(before, wanted):
                    return [stack.enter_context(Segment(folder, *span)) for span in sealed]
            except PermissionError:
                raise  # how the folder was mounted, not a file on the move
            except (OSError, ValueError):  # gone, or (its `partition.metadata`) only half here
                stack.close()
        return []


class Segment:
    """One open segment file. Read, not mapped: a file that is cut short under a mapping kills its reader."""

    def __init__(self, folder: Path, base_offset: int, until_offset: int) -> None:
        self.until_offset = until_offset
        self._base_offset = base_offset
        name = f"{base_offset:020d}"
        try:
            entries = (folder / (name + INDEX_SUFFIX)).read_bytes()
        except FileNotFoundError:
            entries = b""
        self._descriptor = os.open(folder / (name + LOG_SUFFIX), os.O_RDONLY)
        self._index = np.frombuffer(entries[: len(entries) - len(entries) % _INDEX_ENTRY.itemsize], _INDEX_ENTRY)

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def chunks(self, first_offset: int, check_crc: bool) -> Iterator[Chunk]:
        """Whole batches from the one that holds `first_offset`, or a little before it, to the end of the file."""
        size = os.fstat(self._descriptor).st_size
        at, window = self._position_before(first_offset), WINDOW_BYTES
        buffer = np.empty(window, np.uint8)
        while at < size:
            if len(buffer) < window:
                buffer = np.empty(window, np.uint8)
            count = os.preadv(self._descriptor, [buffer.data], at)
            chunk = Chunk(buffer[:count], check_crc=check_crc)
            if chunk.end:
                yield chunk
                at += chunk.end
            elif count < window:
                raise Malformed("what is left of the file is no whole batch")
            else:
                window *= 2

    def _position_before(self, offset: int) -> int:
        """By the sparse index, whose entries are (last offset of a batch, position of that batch)."""
        relative = offset - self._base_offset
        entries = self._index[: int(np.searchsorted(self._index["offset"], relative, side="left"))]
        if not len(entries):
            return 0
        position = int(entries["position"][-1])
        return position if self._is_batch(position, self._base_offset + int(entries["offset"][-1])) else 0

    def _is_batch(self, position: int, last_offset: int) -> bool:
        """Whether a batch that ends with this offset really lies there."""
        prefix = os.pread(self._descriptor, HEADER_BYTES, position) if position >= 0 else b""
        if len(prefix) < HEADER_BYTES:
            return False
        header = read_header(prefix)
        if header.last_offset != last_offset:
            return False
        return check_crc(os.pread(self._descriptor, max(header.size_bytes, HEADER_BYTES), position), 0, header)


def _sealed(names: Iterable[str], wanted: OffsetRange) -> list[tuple[int, int]]:
    """From which offset to before which the segments of the range go, without the newest, to which the broker still
    appends.

    None where the range begins before the oldest segment, or in it with records that were deleted since (by
    DeleteRecords, which leaves them in the file): what became of those is the broker's to say.
    """
    logs = [name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)]
    bases = sorted(int(name) for name in logs if name.isdecimal())
    if not bases or wanted.start < max(bases[0], wanted.log_start):
        return []
    spans = [(base, until) for base, until in pairwise(bases) if until > wanted.start and base < wanted.until]
    return spans[:SEGMENTS_OPEN_MAX]


def _topic_id(folder: Path) -> uuid.UUID:
    text = (folder / "partition.metadata").read_text()
    encoded = text.partition("topic_id: ")[2].strip()
    return uuid.UUID(bytes=base64.urlsafe_b64decode(encoded + "=="))
