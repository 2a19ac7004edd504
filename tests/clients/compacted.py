"""What the tests of compacted topics share: keyed batches, topics that roll at will, and waiting for the cleaner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from clients.protocol.calls import create, fetch, produce
from harness.conditions import wait_until
from harness.raw import RawConnection
from runnel.wire.batch import BatchHeader, decode_records, encode_batch, iterate_headers

SETTINGS = {"log.cleaner.backoff.ms": 20}
BASE_MS = 1_700_000_000_000
SEGMENT_MS = 10_000
"""By the records' own timestamps: the same batches roll at the same places on every broker."""
COMPACT = {"cleanup.policy": "compact", "segment.ms": SEGMENT_MS, "min.cleanable.dirty.ratio": 0}
NULL_KEY_MESSAGE = "Compacted topic cannot accept message without key in topic partition"

Pair = tuple[bytes | None, bytes | None]


class Kept(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def make_topic(raw: RawConnection, name: str, **configs: object) -> None:
    settings = {**COMPACT, **{key.replace("_", "."): value for key, value in configs.items()}}
    rows = [{"name": key, "value": str(value)} for key, value in settings.items()]
    assert create(raw, name, configs=rows).error_code == 0


def keyed(pairs: Sequence[Pair], timestamp: int = BASE_MS, compression: int = 0, **options: int) -> bytes:
    records = [(timestamp + number, key, value, [("n", b"%d" % number)]) for number, (key, value) in enumerate(pairs)]
    return bytes(encode_batch(records, compression=compression, **options))


def put(raw: RawConnection, topic: str, pairs: Sequence[Pair], timestamp: int = BASE_MS, **options: int) -> int:
    reply = produce(raw, topic, keyed(pairs, timestamp, **options))
    assert reply.error_code == 0, reply
    offset: int = reply.base_offset
    return offset


def roll(raw: RawConnection, topic: str, timestamp: int) -> int:
    """A last record, so much later that a segment of its own begins with it: all before may be compacted."""
    return put(raw, topic, [(b"last", b"")], timestamp + 2 * SEGMENT_MS)


def cleaned_offset(data_dir: Path, topic: str, partition: int = 0) -> int:
    """As Kafka and Runnel note it."""
    try:
        lines = (data_dir / "cleaner-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return 0
    rows = [line.split() for line in lines[2:]]
    return next((int(row[2]) for row in rows if row[:2] == [topic, str(partition)]), 0)


def wait_for_cleaner(data_dir: Path, topic: str, offset: int) -> None:
    wait_until(lambda: cleaned_offset(data_dir, topic) >= offset, f"{topic} is clean up to {offset}")


def batches(raw: RawConnection, topic: str) -> tuple[list[BatchHeader], list[Kept]]:
    """Everything that a consumer is given, from the log start on."""
    offset, headers, kept = 0, [], []
    while True:
        reply = fetch(raw, topic, offset)
        assert reply.error_code == 0, reply
        data = bytes(reply.records or b"")
        if not data:
            return headers, kept
        for at, header in iterate_headers(data):
            if header.last_offset >= offset:
                headers.append(header)
                kept += [Kept(r.offset, r.key, r.value, r.timestamp, r.headers) for r in decode_records(data, at)]
                offset = header.next_offset


def newest(appended: Sequence[Kept]) -> list[Kept]:
    last = {each.key: each.offset for each in appended}
    return [each for each in appended if last[each.key] == each.offset]
