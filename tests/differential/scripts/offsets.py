"""ListOffsets (2), DeleteRecords (21), OffsetForLeaderEpoch (23)."""

from __future__ import annotations

from typing import Any

from differential.plays import START_MS, Play, batch, scenario

LIST_OFFSETS, DELETE_RECORDS, OFFSET_FOR_LEADER_EPOCH = 2, 21, 23
SPECIAL = (-1, -2, -3, -4, -5, -6, -7, -100)


def list_offsets(play: Play, name: str, *partitions: dict[str, Any], **options: Any) -> None:
    rows = [{"current_leader_epoch": -1, **partition} for partition in partitions]
    play.ask({"replica_id": -1, "topics": [{"name": name, "partitions": rows}], "timeout_ms": 30_000, **options})


def at(index: int, timestamp: int, **options: Any) -> dict[str, Any]:
    return {"partition_index": index, "timestamp": timestamp, **options}


def timed(play: Play) -> str:
    """Offsets 0-2 at START + 0, 1, 2; 3 at START + 1000; 4 at START + 500; partition 1 is empty."""
    name, new = play.shared("offsets-timed", 2)
    if new:
        play.produce(name, batch(b"a", b"b", b"c"))
        play.produce(name, batch(b"d", at_ms=START_MS + 1000))
        play.produce(name, batch(b"e", at_ms=START_MS + 500))
    return name


@scenario(LIST_OFFSETS)
def list_special(play: Play) -> None:
    name = timed(play)
    for timestamp in SPECIAL:
        list_offsets(play, name, at(0, timestamp), at(1, timestamp))


@scenario(LIST_OFFSETS)
def list_by_time(play: Play) -> None:
    name = timed(play)
    for delta in (-1000, 0, 1, 2, 3, 499, 500, 501, 1000, 1001):
        list_offsets(play, name, at(0, START_MS + delta), at(1, START_MS + delta))
    list_offsets(play, name, at(0, 0), at(0, 2**62))


@scenario(LIST_OFFSETS)
def list_compressed(play: Play) -> None:
    name, new = play.shared("offsets-compressed")
    if new:
        for number, compression in enumerate(("gzip", "snappy", "lz4", "zstd")):
            play.produce(name, batch(b"a", b"b", b"c", at_ms=START_MS + 100 * number, compression=compression))
    for delta in (0, 1, 102, 103, 201, 300, 302, 303):
        list_offsets(play, name, at(0, START_MS + delta))
    list_offsets(play, name, at(0, -3))


@scenario(LIST_OFFSETS)
def list_epochs_and_isolation(play: Play) -> None:
    name = timed(play)
    for epoch in (0, 1, -2):
        for timestamp in (-1, -2, START_MS):
            list_offsets(play, name, at(0, timestamp, current_leader_epoch=epoch))
    for level in (1, 2, -1):
        list_offsets(play, name, at(0, -1), at(0, START_MS), isolation_level=level)


@scenario(LIST_OFFSETS)
def list_what_is_absent(play: Play) -> None:
    name = timed(play)
    list_offsets(play, name, at(2, -1), at(-1, -1), at(0, -1))
    for other in ("nope", "a b", ""):
        list_offsets(play, other, at(0, -1))
    list_offsets(play, name)
    play.ask({"replica_id": -1, "topics": [], "timeout_ms": 1000})
    list_offsets(play, name, at(0, -1), at(0, -1))
    for replica_id in (-2, 0, 1, 7):
        list_offsets(play, name, at(0, -1), replica_id=replica_id)


@scenario(LIST_OFFSETS)
def list_after_deletion(play: Play) -> None:
    name = play.topic("trimmed")
    for number in range(3):
        play.produce(name, batch(b"v", at_ms=START_MS + number))
    delete = {"partition_index": 0, "offset": 3}
    play.both.ask(21, 2, {"topics": [{"name": name, "partitions": [delete]}], "timeout_ms": 30_000})
    for timestamp in (*SPECIAL, START_MS, START_MS + 2):
        list_offsets(play, name, at(0, timestamp))


@scenario(DELETE_RECORDS)
def delete_records(play: Play) -> None:
    name = play.topic("trimmed", 2)
    play.produce(name, batch(b"a", b"b", b"c"))

    def delete(topic: str, index: int, offset: int) -> None:
        rows = [{"partition_index": index, "offset": offset}]
        play.ask({"topics": [{"name": topic, "partitions": rows}], "timeout_ms": 30_000})

    for offset in (1, 1, 0, 2, 4, -2, 2**62, -1, -1):
        delete(name, 0, offset)
    delete(name, 1, 0)
    delete(name, 1, -1)
    delete(name, 1, 1)
    for topic, index in ((name, 2), (name, -1), ("nope", 0), ("a b", 0), ("", 0), ("__consumer_offsets", 0)):
        delete(topic, index, 0)
    rows = [{"partition_index": 0, "offset": -1}, {"partition_index": 1, "offset": -1}]
    play.ask(
        {"topics": [{"name": name, "partitions": rows}, {"name": "nope", "partitions": rows}], "timeout_ms": 30_000}
    )
    play.ask({"topics": [], "timeout_ms": 30_000})


@scenario(DELETE_RECORDS)
def delete_records_where_they_are_kept(play: Play) -> None:
    name = play.topic("compacted", configs={"cleanup.policy": "compact"})
    play.produce(name, batch(b"v", key=b"k"))
    rows = [{"partition_index": 0, "offset": 1}]
    play.ask({"topics": [{"name": name, "partitions": rows}], "timeout_ms": 30_000})


@scenario(OFFSET_FOR_LEADER_EPOCH)
def ends_of_epochs(play: Play) -> None:
    name = timed(play)

    def ask(topic: str, index: int, epoch: int, current: int = -1) -> None:
        rows = [{"partition": index, "leader_epoch": epoch, "current_leader_epoch": current}]
        play.ask({"replica_id": -1, "topics": [{"topic": topic, "partitions": rows}]})

    for index in (0, 1):
        for epoch in (0, 1, 5, -1, -2):
            ask(name, index, epoch)
    for current in (0, 1, -2):
        ask(name, 0, 0, current)
    for topic, index in ((name, 2), (name, -1), ("nope", 0), ("", 0), ("a b", 0)):
        ask(topic, index, 0)
    for replica_id in (-2, 0, 7):
        rows = [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}]
        play.ask({"replica_id": replica_id, "topics": [{"topic": name, "partitions": rows}]})
    play.ask({"replica_id": -1, "topics": []})
