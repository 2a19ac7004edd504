"""One segment: a `.log` file of batches with its two sparse indexes.

In: batches that the log has placed; out: positions. A segment never decides when to roll or what to delete, it only
keeps the limits that tell the log (`size_limit`, `offset_limit`, `roll_after_ms`).
"""

from __future__ import annotations

from collections.abc import Iterator

from runnel.storage.files import Files
from runnel.storage.handles import Handle, HandleCache
from runnel.storage.index import OffsetIndex, TimeIndex
from runnel.storage.scan import SEARCH_CHUNK_BYTES, Scanner
from runnel.wire.batch import HEADER_BYTES, BatchHeader, read_header

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

RELATIVE_OFFSET_MAX = 0x7FFF_FFFF
SEGMENT_BYTES_MAX = 0x7FFF_FFFF
NEVER = 1 << 62


class Segment:
    __slots__ = (
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "end_offset",
        "files",
        "first_timestamp",
        "index",
        "index_entries_max",
        "index_interval_bytes",
        "indexes_loaded",
        "indexes_suspect",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_limit",
        "roll_after_ms",
        "size_bytes",
        "size_limit",
        "time_entries_max",
        "time_index",
    )

    def __init__(
        self, directory: str, base_offset: int, files: Files, handles: HandleCache, name_end: str = ""
    ) -> None:
        """`name_end` comes after the suffix of each file: compaction's segments have other names at first."""
        self.directory = directory
        self.base_offset = base_offset
        self.end_offset = NEVER
        """The base offset of the next segment; NEVER while this one is the active."""
        self.files = files
        self.size_bytes = 0
        self.log = handles.handle(files, self.path(LOG_SUFFIX) + name_end)
        self.index = OffsetIndex(handles.handle(files, self.path(INDEX_SUFFIX) + name_end), base_offset)
        self.time_index = TimeIndex(handles.handle(files, self.path(TIME_INDEX_SUFFIX) + name_end), base_offset)
        self.indexes_loaded = False
        self.indexes_suspect = False
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp: int | None = None
        self.created_ms = 0
        self.bytes_since_index = 0
        self.index_interval_bytes = 4096
        self.index_entries_max = NEVER
        self.time_entries_max = NEVER
        self.size_limit = SEGMENT_BYTES_MAX
        self.offset_limit = base_offset + RELATIVE_OFFSET_MAX
        self.roll_after_ms = NEVER

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    def create(self, now_ms: int) -> None:
        """Make the empty log file. Index files are made when they get their first entries."""
        self.log.create().truncate(0)
        self.created_ms = now_ms
        self.indexes_loaded = True
        for handle in (self.index.handle, self.time_index.handle):
            if self.files.exists(handle.path):  # a leftover of an earlier life must not be appended to
                handle.create().truncate(0)

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """A batch of `size` bytes was written at the end."""
        position = self.size_bytes
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self.index.append(last_offset - self.base_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_index = size
            if self.index.entries >= self.index_entries_max or self.time_index.entries >= self.time_entries_max:
                self.size_limit = 0
        else:
            self.bytes_since_index += size
        self.size_bytes = position + size

    def seal(self) -> None:
        """No more appends: complete the index files. The last time entry is the segment's largest timestamp."""
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        for index in (self.index, self.time_index):
            index.handle.create()
            index.flush()

    def load_indexes(self) -> None:
        """On first use after a restart: take the index files, or rebuild them if they cannot be right."""
        if self.indexes_loaded:
            return
        if not self.indexes_suspect and self._indexes_plausible():
            if self.time_index.last is not None:
                self.max_timestamp = self.time_index.last[0]
                self.max_timestamp_offset = self.base_offset + self.time_index.last[1]
            self.indexes_loaded = True
        else:
            self.rebuild_indexes()

    def _indexes_plausible(self) -> bool:
        if not (self.index.load() and self.time_index.load()):
            return False
        last = self.index.last
        if last is not None and last[1] >= self.size_bytes:
            return False
        if self.time_index.last is None and self.size_bytes:
            return self.first_header().max_timestamp < 0  # every dated segment has at least one time entry
        return True

    def suspect_indexes(self) -> None:
        """A reader (in any thread) found that the index lies: rebuild it before it is used again."""
        self.indexes_suspect = True
        self.indexes_loaded = False

    def rebuild_indexes(self) -> None:
        """From the batch headers. The checksums are recovery's business, not ours."""
        size = self.size_bytes
        self.start_rebuild()
        for _, header in Scanner(self.log.get(), 0, size, self.base_offset):
            self.note(header.size_bytes, header.last_offset, header.max_timestamp)
        self.size_bytes = size
        self.seal()

    def start_rebuild(self) -> None:
        """Forget what the indexes say; the caller notes every batch again."""
        self.index.reset()
        self.time_index.reset()
        self.indexes_loaded = True
        self.indexes_suspect = False
        self.size_bytes = 0
        self.bytes_since_index = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        self.first_timestamp = None

    def cut(self, position: int) -> None:
        """End the segment at `position`, the start of a batch, and make it ready for appends again."""
        self.log.get().truncate(position)
        self.size_bytes = position
        self.rebuild_indexes()

    def first_header(self) -> BatchHeader:
        return read_header(self.log.get().read(0, HEADER_BYTES))

    def start_timestamp(self) -> int:
        """The largest timestamp of the first batch: what segment.ms counts from. -1 if there is none."""
        if self.first_timestamp is None:
            if self.size_bytes == 0:
                return -1
            self.first_timestamp = self.first_header().max_timestamp
        return self.first_timestamp

    def largest_timestamp(self) -> int:
        """What retention.ms counts from: as in Kafka, the file's own time where the records have none."""
        self.load_indexes()
        if self.max_timestamp >= 0 or self.size_bytes == 0:
            return self.max_timestamp
        return self.files.modified_ms(self.log.path)

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends at or after `offset`; None if there is none here."""
        self.load_indexes()
        floor = self.index.floor(self.index.FIRST, offset - self.base_offset)
        if floor is None:
            return self._walk_to(0, offset)
        relative_offset, position = floor.entry
        batches = self.headers(position)
        first = next(batches, None)
        if first is None or first[1].last_offset != self.base_offset + relative_offset:
            self.rebuild_indexes()  # the index lied: no batch that ends at this offset starts there
            return self._walk_to(self.index.by_offset(offset), offset)
        if first[1].last_offset >= offset:
            return first
        for at, header in batches:
            if header.base_offset + header.last_offset_delta >= offset:
                return at, header
        return None

    def _walk_to(self, position: int, offset: int) -> tuple[int, BatchHeader] | None:
        for at, header in self.headers(position):
            if header.base_offset + header.last_offset_delta >= offset:
                return at, header
        return None

    def headers(self, position: int, chunk_bytes: int = SEARCH_CHUNK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """Batches from `position`, which must be the start of one, to the end; no checksums."""
        return iter(Scanner(self.log.get(), position, self.size_bytes, chunk_bytes=chunk_bytes))

    @property
    def file_handles(self) -> tuple[Handle, Handle, Handle]:
        """The indexes first: a segment is there when its log file is."""
        return self.index.handle, self.time_index.handle, self.log

    def release(self) -> None:
        for handle in self.file_handles:
            handle.release()

    def detach(self) -> None:
        """The log has let go of the segment; whoever is reading it goes on."""
        for handle in self.file_handles:
            handle.detach()
