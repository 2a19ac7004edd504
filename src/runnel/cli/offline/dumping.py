"""The content of one file of a data directory, line by line: as text for people, as a mapping for programs.

In: a file's path. Out: `Line`s. Segments are read batch by batch, and past damage to the next good batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

from runnel.cli.offline.decoding import BY_TOPIC, DECODERS, Decoder, decode_control
from runnel.cli.offline.places import SNAPSHOT_OF_METADATA_SUFFIX, PathWrong, base_offset, open_for_reading, topic_of
from runnel.cli.output import counted, human_bytes, iso_time, json_line
from runnel.cli.records_out import record_document
from runnel.core.partition.producers import ProducerEntry
from runnel.storage.checkpoints import (
    COMPACTED_NAME,
    FIRST_SEGMENT_NAME,
    LEADER_EPOCHS_NAME,
    PARTITION_METADATA_NAME,
    decode_leader_epochs,
    decode_offset,
    decode_offset_checkpoint,
)
from runnel.storage.compaction.cleaning import CLEANED_SUFFIX
from runnel.storage.compaction.swapping import SWAP_SUFFIX
from runnel.storage.directory import LOG_STARTS, META_PROPERTIES, RECOVERY_POINTS
from runnel.storage.files import File
from runnel.storage.index import OffsetIndex, TimeIndex
from runnel.storage.recovery import CORRUPT_SUFFIX
from runnel.storage.scan import Scanner, find_intact_batch
from runnel.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from runnel.storage.snapshots import PRODUCERS_SUFFIX, SNAPSHOT_SUFFIX, decode_producers, decode_snapshot
from runnel.wire.batch import HEADER_BYTES, BatchHeader, Record, iterate_records, read_header
from runnel.wire.errors import Malformed

NO_END = (1 << 63) - 1
SHOWN_CHARACTERS_MAX = 200
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
DELETE_HORIZON_BIT = 0x40
INDEX_ENTRIES_READ = 4096
OFFSET_CHECKPOINTS = (
    RECOVERY_POINTS, LOG_STARTS, "replication-offset-checkpoint", "cleaner-offset-checkpoint",
)  # fmt: skip
_ABORTED = Struct(">hqqqq")


class Line(NamedTuple):
    document: dict[str, Any]
    text: str
    is_damage: bool = False


@dataclass(frozen=True, slots=True)
class DumpOptions:
    deep: bool = False
    decode: str = "auto"
    first_offset: int = 0
    last_offset: int = NO_END


Dump: TypeAlias = Callable[[Path, DumpOptions], Iterator[Line]]


def dump_file(path: Path, options: DumpOptions) -> Iterator[Line]:
    """What is in a file, by its name."""
    for ending, dump in _BY_ENDING.items():
        if path.name.endswith(ending):
            return dump(path, options)
    raise PathWrong(f"{path} is not a file of a data directory that could be shown: its name says nothing")


# Batches --------------------------------------------------------------------------------------------------


def _dump_batches(path: Path, options: DumpOptions) -> Iterator[Line]:
    file, decode = open_for_reading(path), _decoder(path, options)
    size, position = file.size(), 0
    while position < size:
        scanner = Scanner(file, position, size, verify=True)
        for at, header in scanner:
            if header.base_offset > options.last_offset:
                return
            if header.last_offset >= options.first_offset:
                yield _batch_line(at, header)
                if options.deep:
                    yield from _dump_records(file, at, header, options, decode)
        if scanner.problem is None:
            return
        expected = max(scanner.expected_offset, base_offset(path))
        following = find_intact_batch(file, scanner.position + 1, size, expected)
        yield from _damage_lines(file, scanner.position, size, scanner.problem, following)
        if following is None:
            return
        position = following


def _decoder(path: Path, options: DumpOptions) -> Decoder | None:
    if options.decode != "auto":
        return DECODERS.get(options.decode)
    is_metadata = path.name.endswith(SNAPSHOT_OF_METADATA_SUFFIX)
    return DECODERS.get("metadata" if is_metadata else BY_TOPIC.get(topic_of(path) or "", ""))


def _damage_lines(file: File, position: int, size: int, problem: str, following: int | None) -> Iterator[Line]:
    until = size if following is None else following
    if following is None and not any(file.read(position, size - position)):
        text = (
            f"{counted(size - position, 'byte')} of zeros end the file: space taken in advance, or an unfinished write"
        )
        yield Line({"kind": "zeros", "position": position, "size_bytes": size - position}, text)
        return
    header_bytes = file.read(position, HEADER_BYTES)
    if problem == "the checksum is wrong" and len(header_bytes) == HEADER_BYTES:
        yield _batch_line(position, read_header(header_bytes), crc_ok=False)
    rest = "nothing good follows" if following is None else f"the next good batch is at position {following}"
    yield Line(
        {"kind": "damage", "position": position, "size_bytes": until - position, "problem": problem},
        f"DAMAGED at position {position}: {problem}; {counted(until - position, 'byte')} cannot be read, {rest}",
        is_damage=True,
    )


def _batch_line(position: int, header: BatchHeader, *, crc_ok: bool = True) -> Line:
    code = header.compression
    compression = COMPRESSIONS[code] if code < len(COMPRESSIONS) else str(code)
    flags = {
        "transactional": header.is_transactional,
        "control": header.is_control,
        "log_append_time": header.is_log_append_time,
        "delete_horizon": bool(header.attributes & DELETE_HORIZON_BIT),
    }
    document = {
        "kind": "batch",
        "position": position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "compression": compression,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        **flags,
        "magic": header.magic,
        "crc": header.crc,
        "crc_ok": crc_ok,
    }
    words = [
        f"offsets {header.base_offset}..{header.last_offset}",
        f"position {position}",
        human_bytes(header.size_bytes),
        counted(header.record_count, "record"),
        iso_time(header.max_timestamp),
        compression,
        f"epoch {header.leader_epoch}",
    ]
    if header.producer_id >= 0:
        sequence = f"{header.base_sequence}..{header.last_sequence}"
        words.append(f"producer {header.producer_id} epoch {header.producer_epoch} sequence {sequence}")
    words += [name.replace("_", " ") for name, is_set in flags.items() if is_set]
    words.append(f"crc {header.crc:08x} {'ok' if crc_ok else 'WRONG'}")
    return Line(document, "  ".join(words))


def _dump_records(
    file: File, position: int, header: BatchHeader, options: DumpOptions, decode: Decoder | None
) -> Iterator[Line]:
    try:
        for record in iterate_records(file.read(position, header.size_bytes)):
            if options.first_offset <= record.offset <= options.last_offset:
                yield _record_line(record, decode_control if header.is_control else decode)
    except Malformed as error:
        document = {"kind": "damage", "position": position, "size_bytes": header.size_bytes, "problem": str(error)}
        yield Line(document, f"  DAMAGED: the checksum is right, but the records do not parse: {error}", is_damage=True)


def _record_line(record: Record, decode: Decoder | None) -> Line:
    if decode is None:
        return Line({"kind": "record", **record_document(record)}, f"  {_record_text(record)}")
    try:
        decoded = decode(record)
    except Malformed as error:
        decoded = {"type": "Malformed", "problem": str(error)}
    document = {"kind": "record", "offset": record.offset, "timestamp": record.timestamp, "decoded": decoded}
    fields = " ".join(f"{name}={_worded(value)}" for name, value in decoded.items() if name != "type")
    return Line(document, f"  {record.offset}  {iso_time(record.timestamp)}  {decoded['type']} {fields}".rstrip())


def _worded(value: Any) -> str:
    return value if isinstance(value, str) else json_line(value)


def _record_text(record: Record) -> str:
    headers = " ".join(f"{name}={_shown(value)}" for name, value in record.headers)
    text = f"{record.offset}  {iso_time(record.timestamp)}  key={_shown(record.key)}  value={_shown(record.value)}"
    return f"{text}  headers: {headers}" if headers else text


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = data.decode("utf-8", "backslashreplace")
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}... ({len(data)} bytes)"


# Indexes --------------------------------------------------------------------------------------------------


def index_entries(path: Path, layout: Struct) -> Iterator[tuple[int, ...]]:
    """The entries of an index file. Kafka takes room in advance: where a file ends with zeros, so do its entries."""
    file = open_for_reading(path)
    count = file.size() // layout.size
    ends_with_zeros = count > 0 and not any(file.read((count - 1) * layout.size, layout.size))
    for start in range(0, count, INDEX_ENTRIES_READ):
        data = file.read(start * layout.size, min(INDEX_ENTRIES_READ, count - start) * layout.size)
        for entry in layout.iter_unpack(data):
            if ends_with_zeros and not any(entry):
                return
            yield entry


def _dump_offset_index(path: Path, options: DumpOptions) -> Iterator[Line]:
    base = base_offset(path)
    for relative, position in index_entries(path, OffsetIndex.ENTRY):
        offset = base + relative
        if options.first_offset <= offset <= options.last_offset:
            yield Line(
                {"kind": "index", "offset": offset, "position": position}, f"offset {offset}  position {position}"
            )


def _dump_time_index(path: Path, options: DumpOptions) -> Iterator[Line]:
    base = base_offset(path)
    for timestamp, relative in index_entries(path, TimeIndex.ENTRY):
        offset = base + relative
        if options.first_offset <= offset <= options.last_offset:
            document = {"kind": "time_index", "timestamp": timestamp, "offset": offset}
            yield Line(document, f"time {iso_time(timestamp)} ({timestamp})  offset {offset}")


def _dump_transaction_index(path: Path, _: DumpOptions) -> Iterator[Line]:
    for version, producer_id, first, last, stable in index_entries(path, _ABORTED):
        document = {
            "kind": "aborted_transaction",
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
            "version": version,
        }
        yield Line(document, f"aborted: producer {producer_id}  offsets {first}..{last}  last stable offset {stable}")


# Snapshots of producers -----------------------------------------------------------------------------------


def _dump_snapshot(path: Path, _: DumpOptions) -> Iterator[Line]:
    yield from _producer_lines(decode_snapshot(path.read_bytes()))


def _dump_producers(path: Path, _: DumpOptions) -> Iterator[Line]:
    yield from _producer_lines(decode_producers(path.read_bytes(), base_offset(path)))


def _producer_lines(entries: list[tuple[int, ProducerEntry]] | None) -> Iterator[Line]:
    if entries is None:
        problem = "the checksum or the length is wrong"
        yield Line({"kind": "damage", "problem": problem}, f"DAMAGED: {problem}", is_damage=True)
        return
    for producer_id, entry in entries:
        batches = [batch._asdict() for batch in entry.batches]
        document = {
            "kind": "producer",
            "producer_id": producer_id,
            "epoch": entry.epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
            "last_seen_ms": entry.last_seen_ms,
            "batches": batches,
        }
        seen = " ".join(
            f"sequence {batch.base_sequence}..{batch.last_sequence} at {batch.base_offset}..{batch.last_offset}"
            for batch in entry.batches
        )
        open_from = entry.transaction_first_offset
        transaction = f"  open transaction from {open_from}" if open_from >= 0 else ""
        yield Line(document, f"producer {producer_id}  epoch {entry.epoch}  {seen}{transaction}")


# Small text files -----------------------------------------------------------------------------------------


def _dump_offset_checkpoint(path: Path, _: DumpOptions) -> Iterator[Line]:
    data = path.read_bytes()
    offsets = decode_offset_checkpoint(data) if data else {}
    yield from _rows(
        None
        if offsets is None
        else [
            ({"topic": topic, "partition": index, "offset": offset}, f"{topic}-{index}  {offset}")
            for (topic, index), offset in sorted(offsets.items())
        ]
    )


def _dump_leader_epochs(path: Path, _: DumpOptions) -> Iterator[Line]:
    entries = decode_leader_epochs(path.read_bytes())
    yield from _rows(
        None
        if entries is None
        else [
            ({"epoch": epoch, "start_offset": start}, f"epoch {epoch}  from offset {start}") for epoch, start in entries
        ]
    )


def _dump_offset(path: Path, _: DumpOptions) -> Iterator[Line]:
    found = decode_offset(path.read_bytes())
    yield from _rows(None if found is None else [({"offset": found}, f"offset {found}")])


def _rows(rows: list[tuple[dict[str, Any], str]] | None) -> Iterator[Line]:
    if rows is None:
        problem = "not a checkpoint: a version, a count, and that many lines are expected"
        yield Line({"kind": "damage", "problem": problem}, f"DAMAGED: {problem}", is_damage=True)
        return
    for document, text in rows:
        yield Line({"kind": "checkpoint", **document}, text)


def _dump_text(path: Path, _: DumpOptions) -> Iterator[Line]:
    for line in path.read_text("utf-8", "replace").splitlines():
        if line and not line.startswith("#"):
            yield Line({"kind": "text", "text": line}, line)


_BY_ENDING: dict[str, Dump] = {
    LOG_SUFFIX: _dump_batches,
    **dict.fromkeys(
        (f"{LOG_SUFFIX}{suffix}" for suffix in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)), _dump_batches
    ),
    SNAPSHOT_OF_METADATA_SUFFIX: _dump_batches,
    CORRUPT_SUFFIX: _dump_batches,
    INDEX_SUFFIX: _dump_offset_index,
    TIME_INDEX_SUFFIX: _dump_time_index,
    TRANSACTION_INDEX_SUFFIX: _dump_transaction_index,
    SNAPSHOT_SUFFIX: _dump_snapshot,
    PRODUCERS_SUFFIX: _dump_producers,
    **dict.fromkeys(OFFSET_CHECKPOINTS, _dump_offset_checkpoint),
    LEADER_EPOCHS_NAME: _dump_leader_epochs,
    FIRST_SEGMENT_NAME: _dump_offset,
    COMPACTED_NAME: _dump_offset,
    PARTITION_METADATA_NAME: _dump_text,
    META_PROPERTIES: _dump_text,
    "quorum-state": _dump_text,
    ".kafka_cleanshutdown": _dump_text,
}
