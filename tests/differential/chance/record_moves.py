"""Moves that write and read records: Produce, Fetch and its sessions, ListOffsets, DeleteRecords, leader epochs."""

from __future__ import annotations

from typing import Any

from differential.chance.world import FetchSession, IdempotentProducer, World
from differential.plays import START_MS, batch, batch_of
from harness.batches import corrupt

PRODUCE, FETCH, LIST_OFFSETS, DELETE_RECORDS, INIT_PRODUCER_ID, EPOCHS = 0, 1, 2, 21, 22, 23
SESSIONS_FROM, IDS_FROM = 7, 13
CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")


def produce(world: World) -> None:
    chance = world.chance
    topic = world.topic()
    partition = world.partition(topic)
    values = [chance.randbytes(chance.randint(0, 60)) for _ in range(chance.randint(1, 5))]
    key = chance.choice([None, b"k1", b"k2"])
    records: Any = batch(
        *values, key=key, at_ms=START_MS + chance.randint(-5000, 5000), compression=chance.choice(CODECS)
    )
    if chance.random() < 0.05:
        records = chance.choice([corrupt(records), records[:-3], records + records, b"", b"junk"])
    _produced(world, topic, partition, records)


def _produced(world: World, topic: str, partition: int, records: Any) -> int:
    """Sends it; Kafka's error code comes back, and the end of the log is remembered."""
    rows = [{"index": partition, "records": records}]
    body = {"acks": world.chance.choice([1, -1]), "timeout_ms": 30_000}
    body["topic_data"] = [{**world.where(topic), "partition_data": rows}]
    pair = world.ask(PRODUCE, body)
    row = pair.kafka["responses"][0]["partition_responses"][0]
    if row["error_code"] == 0:
        world.ends[topic, partition] = max(world.ends.get((topic, partition), 0), row["base_offset"] + 1)
    return int(row["error_code"])


def new_producer(world: World) -> None:
    pair = world.ask(INIT_PRODUCER_ID, {"transactional_id": None, "transaction_timeout_ms": 60_000})
    text = world.new_name("p")
    world.producers.append(
        IdempotentProducer(world.both.learn("producer", text, pair, lambda reply: reply["producer_id"]))
    )


def produce_in_sequence(world: World) -> None:
    """As a producer should, and now and then as it should not: again, with a gap, in an old or new epoch."""
    if not world.producers:
        new_producer(world)
    chance = world.chance
    producer = chance.choice(world.producers)
    topic = world.topic()
    partition = world.partition(topic)
    count = chance.randint(1, 3)
    expected = producer.next_sequences.get((topic, partition), 0)
    sequence, epoch = expected, producer.epoch
    luck = chance.random()
    if luck < 0.15:
        sequence = max(0, expected - chance.randint(1, 6))
    elif luck < 0.25:
        sequence = expected + chance.randint(1, 3)
    elif luck < 0.32:
        producer.epoch += 1
        producer.next_sequences.clear()
        epoch, sequence = producer.epoch, 0
    elif luck < 0.36:
        epoch = max(0, epoch - 1)
    code = _produced(world, topic, partition, batch_of(producer.name, epoch, sequence, count))
    if code == 0 and epoch == producer.epoch and sequence == expected:
        producer.next_sequences[topic, partition] = sequence + count


def _wanted(world: World, topic: str) -> dict[str, Any]:
    index = world.partition(topic)
    chance = world.chance
    return {
        "partition": index,
        "fetch_offset": world.offset(topic, index),
        "partition_max_bytes": chance.choice([0, 1, 70, 100, 1 << 20]),
        "current_leader_epoch": world.epoch(),
        "last_fetched_epoch": chance.choice([-1, -1, -1, 0, 0, 1]),
        "log_start_offset": -1,
    }


def _fetch_body(world: World, topics: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    chance = world.chance
    body: dict[str, Any] = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": chance.choice([0, 1, 1000])}
    body |= {"max_bytes": chance.choice([0, 100, 1 << 20]), "isolation_level": chance.choice([0, 1])}
    return {**body, "session_id": 0, "session_epoch": -1, "topics": topics, **options}


def _fetch_topics(world: World) -> list[dict[str, Any]]:
    topics = dict.fromkeys(world.topic() for _ in range(world.chance.randint(1, 2)))
    strange = [topic for topic in topics if topic not in world.partitions]
    for topic in strange[1:]:  # by id they would all be the same
        del topics[topic]
    return [{**world.where(topic, "topic"), "partitions": [_wanted(world, topic)]} for topic in topics]


def fetch(world: World) -> None:
    world.ask(FETCH, _fetch_body(world, _fetch_topics(world)))


def open_session(world: World) -> None:
    version = world.version(FETCH, lowest=SESSIONS_FROM)
    pair = world.ask(FETCH, _fetch_body(world, _fetch_topics(world), session_epoch=0), version)
    name = world.both.learn("session", world.new_name("s"), pair, lambda reply: reply["session_id"])
    world.sessions.append(FetchSession(name, version))


def go_on_in_session(world: World) -> None:
    if not world.sessions:
        open_session(world)
    chance = world.chance
    session = chance.choice(world.sessions)
    epoch = session.epoch + (chance.choice([-1, 1, 5]) if chance.random() < 0.05 else 0)
    topics = _fetch_topics(world) if chance.random() < 0.5 else []
    forgotten = []
    if world.partitions and chance.random() < 0.2:
        topic = chance.choice(list(world.partitions))
        forgotten = [{**world.where(topic, "topic"), "partitions": [0, 1]}]
    options = {"session_id": session.name, "session_epoch": epoch, "forgotten_topics_data": forgotten}
    pair = world.ask(FETCH, _fetch_body(world, topics, **options), session.version)
    if pair.kafka["error_code"] == 0:
        session.epoch += 1
    if chance.random() < 0.1:
        world.sessions.remove(session)


def list_offsets(world: World) -> None:
    chance = world.chance
    topic = world.topic()
    indexes = dict.fromkeys(world.partition(topic) for _ in range(chance.randint(1, 2)))
    rows = [
        {
            "partition_index": index,
            "current_leader_epoch": world.epoch(),
            "timestamp": chance.choice([-1, -2, -4, -5, START_MS + chance.randint(-6000, 6000)]),
        }
        for index in indexes
    ]
    topics = [{"name": topic, "partitions": rows}]
    world.ask(
        LIST_OFFSETS,
        {"replica_id": -1, "isolation_level": chance.choice([0, 1]), "topics": topics, "timeout_ms": 30_000},
    )


def delete_records(world: World) -> None:
    topic = world.topic()
    index = world.partition(topic)
    rows = [{"partition_index": index, "offset": world.offset(topic, index)}]
    world.ask(DELETE_RECORDS, {"topics": [{"name": topic, "partitions": rows}], "timeout_ms": 30_000})


def ends_of_epochs(world: World) -> None:
    topic = world.topic()
    epochs = {"leader_epoch": world.chance.choice([-1, 0, 0, 1, 5]), "current_leader_epoch": world.epoch()}
    rows = [{"partition": world.partition(topic), **epochs}]
    world.ask(EPOCHS, {"replica_id": -1, "topics": [{"topic": topic, "partitions": rows}]})
