"""Walking a segment file batch by batch: for recovery, rebuilding, searching and checking.

In: an open file and a range of it; out: positions and headers of good batches, and where and why the walk ended.
With `verify` every CRC is checked; without, only headers are read and records are jumped over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from runnel.storage.files import File
from runnel.wire.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, BatchHeader, check_crc, read_header

VERIFY_CHUNK_BYTES = 1 << 20
HEADERS_CHUNK_BYTES = 1 << 16
SEARCH_CHUNK_BYTES = 1 << 12
INTACT_CHUNK_BYTES = 1 << 20
BATCH_LENGTH_MIN = HEADER_BYTES - LENGTH_PREFIX_BYTES


UNKNOWN_OFFSET = -1
ANYWHERE = 1 << 63


class Scanner:
    """Iterate once; then `position` is the end of the last good batch and `problem` says why it ended there.

    `problem` is None when the range was walked to its end. A gap between offsets is a problem if it reaches beyond
    `gaps_below`: only compaction makes them.
    """

    def __init__(
        self,
        file: File,
        start: int,
        end: int,
        expected_offset: int = UNKNOWN_OFFSET,
        *,
        verify: bool = False,
        gaps_below: int = ANYWHERE,
        chunk_bytes: int | None = None,
    ) -> None:
        self._file = file
        self._end = end
        self._verify = verify
        self._gaps_below = gaps_below
        self._chunk_bytes = chunk_bytes or (VERIFY_CHUNK_BYTES if verify else HEADERS_CHUNK_BYTES)
        self.position = start
        self.expected_offset = expected_offset
        self.problem: str | None = None
        self.chunk = b""
        """What was read last; with `verify` it holds the whole of the batch that was just found."""
        self.chunk_position = start

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        needed = self._chunk_bytes
        while self.position < self._end and self.problem is None:
            start = self.position
            length = min(needed, self._end - start)
            data = self._file.read(start, length)
            if len(data) < length:
                self.problem = "the file is shorter than expected"
                return
            yield from self._walk(data, start)
            needed = self._chunk_bytes
            if self.position == start and self.problem is None:
                needed = self._needed_bytes(data)

    def _walk(self, data: bytes, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """The whole batches in `data`; without `verify`, the last may reach beyond it."""
        at, verify = 0, self._verify
        self.chunk, self.chunk_position = data, start
        while len(data) - at >= HEADER_BYTES:
            header = read_header(data, at)
            following = at + header.batch_length + LENGTH_PREFIX_BYTES
            if (
                header.base_offset != self.expected_offset
                or header.magic != MAGIC
                or header.batch_length < BATCH_LENGTH_MIN
                or header.last_offset_delta < 0
                or start + following > self._end
            ):
                self.problem = self._problem_of(header, start + at)
                if self.problem is not None:
                    return
            if verify:
                if following > len(data):
                    return
                if not check_crc(data, at, header):
                    self.problem = "the checksum is wrong"
                    return
            self.position = start + following
            self.expected_offset = header.base_offset + header.last_offset_delta + 1
            yield start + at, header
            at = following

    def _needed_bytes(self, data: bytes) -> int:
        """Nothing fitted into `data`: the size of the batch there, or the end of the file inside its header."""
        if len(data) >= HEADER_BYTES:
            return read_header(data).size_bytes
        self.problem = "the file ends inside a batch header"
        return 0

    def _problem_of(self, header: BatchHeader, position: int) -> str | None:
        if header.magic != MAGIC:
            return f"magic is {header.magic}"
        if header.batch_length < BATCH_LENGTH_MIN:
            return f"batch length is {header.batch_length}"
        following = position + header.batch_length + LENGTH_PREFIX_BYTES
        if following > self._end:
            return "the file ends inside a batch"
        if header.last_offset_delta < 0:
            return f"last offset delta is {header.last_offset_delta}"
        if header.base_offset == self.expected_offset or self.expected_offset == UNKNOWN_OFFSET:
            return None
        if header.base_offset < self.expected_offset:
            return f"offset {header.base_offset} follows {self.expected_offset - 1}"
        if header.base_offset > self._gaps_below:
            return f"offset {header.base_offset} stands where {self.expected_offset} was expected"
        return self._gap_problem(header, following)

    def _gap_problem(self, header: BatchHeader, following: int) -> str | None:
        """Gaps are legal (compaction). But the base offset lies outside the CRC: if the next batch does not
        follow from this one, it is this one's offset that is wrong."""
        if self._end - following < HEADER_BYTES:
            return None
        at = following - self.chunk_position
        data = self.chunk[at : at + HEADER_BYTES]
        after = read_header(data if len(data) == HEADER_BYTES else self._file.read(following, HEADER_BYTES))
        if after.magic == MAGIC and after.base_offset < header.next_offset:
            return f"offset {header.base_offset} leads to {after.base_offset}"
        return None


def find_intact_batch(file: File, start: int, end: int, expected_offset: int) -> int | None:
    """The position of the first whole batch with a right checksum at or after `start`, if there is one.

    Tells a torn tail (nothing follows) from damage in the middle (good batches follow).
    """
    # The upper half of an offset hardly changes within a segment: it anchors the search.
    anchor = expected_offset.to_bytes(8, "big")[:4]
    pattern = re.compile(b"(?=" + re.escape(anchor) + rb".{4}[\x00-\x7f].{7}\x02)", re.DOTALL)
    position = start
    while end - position >= HEADER_BYTES:
        data = file.read(position, min(INTACT_CHUNK_BYTES, end - position))
        for match in pattern.finditer(data):
            at = position + match.start()
            if end - at >= HEADER_BYTES and _is_intact(file, at, end, expected_offset):
                return at
        if len(data) < INTACT_CHUNK_BYTES:
            break
        position += len(data) - HEADER_BYTES
    return None


def _is_intact(file: File, position: int, end: int, expected_offset: int) -> bool:
    header = read_header(file.read(position, HEADER_BYTES))
    size = header.batch_length + LENGTH_PREFIX_BYTES
    if header.batch_length < BATCH_LENGTH_MIN or position + size > end or header.base_offset < expected_offset:
        return False
    return check_crc(file.read(position, size), 0, header)
