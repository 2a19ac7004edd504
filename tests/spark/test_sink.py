"""The sink's tasks against a real broker, without Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from harness.proxy import CuttingProxy
from harness.topics import create_topic, read_all
from runnel import Broker
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.client.partitioner import partition_for_key
from runnel.spark.brokers.cluster import Cluster
from runnel.spark.errors import OptionError, RowError
from runnel.spark.row_schema import HEADERS_TYPE
from runnel.spark.sink_options import parse_sink_options
from runnel.spark.writers import StreamWriter, Written
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from spark.records import read_batch, source
from spark.test_batch_reader import delete_topic

PRODUCE, API_VERSIONS, INIT_PRODUCER_ID = 0, 18, 22
VALUE = StructType([StructField("value", BinaryType())])
EVERY_COLUMN = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", StringType()),
        StructField("headers", HEADERS_TYPE),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("ignored", LongType()),
    ]
)


@pytest.fixture
def topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=3)


def write(bootstrap: str, batches: list[pa.RecordBatch], schema: StructType, **options: str) -> Written:
    writer = source(bootstrap, options).writer(schema, overwrite=False)
    message = writer.write(iter(batches))
    assert isinstance(message, Written)
    return message


def values_batch(values: list[bytes | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.binary())], names=["value"])


def keyed_batch(keys: list[bytes], size: int = 10) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys), pa.array([key * size for key in keys])], names=["key", "value"])


KEYED = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


def test_every_column(bootstrap: str, topic: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    rows = [
        {"key": b"k", "value": "text", "headers": [{"key": "h", "value": b"1"}], "topic": topic, "partition": 2},
        {"key": None, "value": None, "headers": None, "topic": topic, "partition": 1},
    ]
    batch = pa.RecordBatch.from_pylist([{**row, "ignored": 1} for row in rows], to_arrow_schema(EVERY_COLUMN))
    written = write(bootstrap, [batch], EVERY_COLUMN)
    assert written.arrived == {TopicPartition(topic, 2): (1, 1), TopicPartition(topic, 1): (1, 1)}
    found = read_batch(bootstrap, subscribe=topic, includeHeaders="true")
    assert [(row["partition"], row["key"], row["value"], row["headers"]) for row in found] == [
        (1, None, None, None),
        (2, b"k", b"text", [{"key": "h", "value": b"1"}]),
    ]


def test_the_option_topic_wins_over_the_column(bootstrap: str, topic: str) -> None:
    schema = StructType([*VALUE.fields, StructField("topic", StringType())])
    batch = pa.record_batch([pa.array([b"v"]), pa.array([None], pa.string())], names=["value", "topic"])
    write(bootstrap, [batch], schema, topic=topic)
    assert [row["value"] for row in read_batch(bootstrap, subscribe=topic)] == [b"v"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_reads_every_codec_in_order(bootstrap: str, topic: str, codec: str) -> None:
    keys = [b"%d" % number for number in range(2000)]
    batches = [keyed_batch(keys[at : at + 300]) for at in range(0, 2000, 300)]
    options = {"kafka.compression.type": codec, "kafka.batch.size": "5000"}
    written = write(bootstrap, batches, KEYED, topic=topic, **options)
    assert sum(count for count, _ in written.arrived.values()) == 2000
    expected = [[key for key in keys if partition_for_key(key, 3) == partition] for partition in range(3)]
    assert [written.arrived[TopicPartition(topic, index)] for index in range(3)] == [(len(e), len(e)) for e in expected]
    assert read_all(bootstrap, topic, 1, keep=lambda message: message.key()) == expected[1]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(bootstrap: str, topic: str, acks: str) -> None:
    written = write(bootstrap, [values_batch([b"v"] * 10)], VALUE, topic=topic, **{"kafka.acks": acks})
    assert sum(count for count, _ in written.arrived.values()) == 10
    if acks != "0":  # which does not even say when
        assert len(read_batch(bootstrap, subscribe=topic)) == 10


def test_rows_without_key_fill_one_batch_after_the_other(bootstrap: str, topic: str) -> None:
    batches = [values_batch([b"x" * 100] * 100) for _ in range(30)]
    written = write(bootstrap, batches, VALUE, topic=topic, **{"kafka.batch.size": "20000"})
    assert sum(count for count, _ in written.arrived.values()) == 3000
    assert len(read_batch(bootstrap, subscribe=topic)) == 3000


def test_little_memory_is_enough(bootstrap: str, topic: str) -> None:
    batches = [keyed_batch([b"%d" % number for number in range(at, at + 100)], 200) for at in range(0, 3000, 100)]
    options = {"kafka.buffer.memory": "10000", "kafka.batch.size": "4000"}
    written = write(bootstrap, batches, KEYED, topic=topic, **options)
    assert sum(count for count, _ in written.arrived.values()) == 3000


def test_a_missing_topic_is_created_on_demand(bootstrap: str, new_name: Callable[[], str]) -> None:
    name = new_name()
    write(bootstrap, [values_batch([b"v"])], VALUE, topic=name)
    assert [row["value"] for row in read_batch(bootstrap, subscribe=name)] == [b"v"]


def test_a_topic_that_turns_up_while_another_is_written(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topics = new_topic(partitions=1), new_topic(partitions=1)
    counts = [(0, 3000), (1, 10), (0, 5)]
    batches = [
        pa.RecordBatch.from_pylist([{"topic": topics[number], "value": b"v" * 1000}] * count)
        for number, count in counts
    ]
    schema = StructType([StructField("topic", StringType()), StructField("value", BinaryType())])
    written = write(bootstrap, batches, schema)
    assert written.arrived == {TopicPartition(topics[0], 0): (3005, 3005), TopicPartition(topics[1], 0): (10, 10)}


def test_nothing_to_write(bootstrap: str, topic: str) -> None:
    assert write(bootstrap, [], VALUE, topic=topic).arrived == {}
    assert write(bootstrap, [values_batch([])], VALUE, topic=topic).arrived == {}


@pytest.mark.parametrize("asked", [True, False])
def test_idempotence_that_was_asked_for_is_not_given_up(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Some brokers that speak Kafka's protocol have no producer ids. They are played: none of ours is one."""
    as_answered = Cluster.call

    def call(cluster: Cluster, api_key: ApiKey, body: Any, **how: Any) -> Any:
        if api_key == ApiKey.INIT_PRODUCER_ID:
            raise ClientError("the broker has no InitProducerId", code=ErrorCode.UNSUPPORTED_VERSION)
        return as_answered(cluster, api_key, body, **how)

    monkeypatch.setattr(Cluster, "call", call)
    options = {"topic": topic, "kafka.client.id": f"asked-{asked}"}  # on connections that no identity is kept for
    if asked:
        with pytest.raises(ClientError, match=r"no InitProducerId: leave kafka.enable.idempotence out"):
            write(bootstrap, [values_batch([b"a"])], VALUE, **options, **{"kafka.enable.idempotence": "true"})
    else:
        write(bootstrap, [values_batch([b"a"])], VALUE, **options)
    assert sum(len(read_all(bootstrap, topic, partition)) for partition in range(3)) == (0 if asked else 1)


# Mistakes -------------------------------------------------------------------------------------------------------


def test_a_partition_that_does_not_exist_names_the_row(bootstrap: str, topic: str) -> None:
    schema = StructType([*VALUE.fields, StructField("partition", IntegerType())])
    batch = pa.record_batch([pa.array([b"a", b"b"]), pa.array([0, 9], pa.int32())], names=["value", "partition"])
    with pytest.raises(
        RowError, match=f"row 1 of the task, without key, names partition 9 of topic {topic}, .* 0 to 2"
    ):
        write(bootstrap, [batch], schema, topic=topic)


def test_a_negative_partition_is_none(bootstrap: str, topic: str) -> None:
    schema = StructType([*VALUE.fields, StructField("partition", IntegerType())])
    batch = pa.record_batch([pa.array([b"a"]), pa.array([-1], pa.int32())], names=["value", "partition"])
    with pytest.raises(RowError, match=f"row 0 of the task, without key, names partition -1 of topic {topic}"):
        write(bootstrap, [batch], schema, topic=topic)


def test_a_batch_too_large_for_the_topic_is_cut_and_a_record_too_large_is_named(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes=3000)
    keys = [b"%d" % number for number in range(100)]
    write(bootstrap, [keyed_batch(keys, 100)], KEYED, topic=topic)
    assert read_all(bootstrap, topic, keep=lambda message: message.key()) == keys
    with pytest.raises(
        RowError, match=rf"row 1 of the task, with key b'big': .* larger than topic {topic} allows; .*max.message.bytes"
    ):
        write(bootstrap, [keyed_batch([b"a", b"big", b"c"], 1000)], KEYED, topic=topic)


def test_a_record_that_the_broker_refuses_is_named(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(cleanup_policy="compact")
    batch = pa.record_batch([pa.array([b"a", b"b", None]), pa.array([b"v"] * 3)], names=["key", "value"])
    with pytest.raises(RowError, match="row 2 of the task, without key: Compacted topic cannot accept"):
        write(bootstrap, [batch], KEYED, topic=topic)


def test_internal_topics_are_not_for_writing(bootstrap: str) -> None:
    with pytest.raises(ClientError, match="Cannot append to internal topic __consumer_offsets"):
        write(bootstrap, [keyed_batch([b"a"], 10)], KEYED, topic="__consumer_offsets")


def test_requests_are_no_larger_than_the_option_says() -> None:
    """A broker that takes less than we would send at once hangs up, and gives no reason."""
    schema = StructType([*VALUE.fields, StructField("partition", IntegerType())])
    batch = pa.record_batch([pa.array([b"x" * 800_000] * 9), pa.array(range(9), pa.int32())], ["value", "partition"])
    options = {"topic": "t", "kafka.max.request.size": "1000000", "kafka.delivery.timeout.ms": "20000"}
    with Broker(configs={"socket.request.max.bytes": "2000000"}) as broker:
        broker.create_topic("t", 9)
        written = write(broker.bootstrap_servers, [batch], schema, **options)
    assert sum(count for count, _ in written.arrived.values()) == 9


def test_a_record_too_large_for_the_option(bootstrap: str, topic: str) -> None:
    with pytest.raises(RowError, match=r"row 1 of the task, with key b'12345'.*kafka.max.request.size \(1000\)"):
        write(bootstrap, [keyed_batch([b"1", b"12345"], 300)], KEYED, topic=topic, **{"kafka.max.request.size": "1000"})


def test_a_record_too_large_for_any_request(bootstrap: str, topic: str) -> None:
    """Brokers hang up on such a request, and would do so again until the delivery timeout."""
    with pytest.raises(RowError, match=r"row 1 of the task, without key.*kafka.max.request.size \(104853504\)"):
        write(bootstrap, [values_batch([b"small", b"x" * (101 << 20)])], VALUE, topic=topic)


def test_each_record_in_a_batch_of_its_own(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    write(bootstrap, [keyed_batch([b"a", b"b", b"c"])], KEYED, topic=topic, **{"kafka.batch.size": "0"})
    assert read_all(bootstrap, topic, keep=lambda message: message.key()) == [b"a", b"b", b"c"]


REFUSED: list[tuple[StructType, dict[str, str], str]] = [
    (StructType([StructField("key", BinaryType())]), {"topic": "t"}, r"no column 'value' \(there are: key\)"),
    (VALUE, {}, "neither an option topic nor a column 'topic'"),
    (VALUE, {"topic": "t", "kafka.key.serializer": "X"}, "kafka.key.serializer is not supported"),
    (VALUE, {"topic": "t", "kafka.value.serializer": "X"}, "kafka.value.serializer is not supported"),
    (VALUE, {"topic": "t", "kafka.transactional.id": "X"}, "kafka.transactional.id is not supported: .*idempotent"),
    (VALUE, {"topic": "t", "kafka.partitioner.class": "X"}, "kafka.partitioner.class is not supported"),
    (VALUE, {"topic": "t", "kafka.acks": "2"}, "kafka.acks is '2': write one of all, -1, 1, 0"),
    (VALUE, {"topic": "t", "kafka.acks": "1", "kafka.enable.idempotence": "true"}, "idempotence needs kafka.acks=all"),
    (VALUE, {"topic": "t", "kafka.compression.type": "rar"}, "write one of none, gzip, snappy, lz4, zstd"),
]


@pytest.mark.parametrize(("schema", "options", "complaint"), REFUSED)
def test_refused(schema: StructType, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        source("localhost:9092", options).writer(schema, overwrite=False)


WRONG_TYPES: list[tuple[str, DataType, str]] = [
    ("key", LongType(), "column 'key' must be binary or string, not bigint"),
    ("Value", IntegerType(), "column 'Value' must be binary or string, not int"),
    ("topic", BinaryType(), "column 'topic' must be string, not binary"),
    ("partition", LongType(), "column 'partition' must be int, not bigint"),
    ("headers", ArrayType(StringType()), "column 'headers' must be array<struct<key:string,value:binary>>"),
]


@pytest.mark.parametrize(("name", "kind", "complaint"), WRONG_TYPES)
def test_columns_of_a_wrong_type_are_refused(name: str, kind: DataType, complaint: str) -> None:
    fields = [StructField(name, kind)] + ([] if name.lower() == "value" else VALUE.fields)
    with pytest.raises(OptionError, match=complaint):
        source("localhost:9092", {"topic": "t"}).writer(StructType(fields), overwrite=False)


def test_overwriting_is_refused_for_batches_and_means_nothing_for_streams() -> None:
    with pytest.raises(OptionError, match=r"mode\('append'\)"):
        source("localhost:9092", {"topic": "t"}).writer(VALUE, overwrite=True)
    assert isinstance(source("localhost:9092", {"topic": "t"}).streamWriter(VALUE, overwrite=True), StreamWriter)


def test_headers_may_be_declared_without_nulls() -> None:
    pair = StructType([StructField("key", StringType(), False), StructField("value", BinaryType(), False)])
    schema = StructType([*VALUE.fields, StructField("headers", ArrayType(pair, False), False)])
    assert parse_sink_options({"kafka.bootstrap.servers": "h:1", "topic": "t"}, schema).topic == "t"


# Brokers that go away -------------------------------------------------------------------------------------------


def test_lost_replies_cost_and_double_nothing(bootstrap: str, new_topic: Callable[..., str]) -> None:
    """The batch arrived and the reply did not, so it is sent again; the broker knows it by its sequence."""
    topic = new_topic()
    batches = [keyed_batch([b"%05d" % number for number in range(at, at + 50)]) for at in range(0, 2000, 50)]
    with CuttingProxy(bootstrap, lambda api_key, number: api_key == PRODUCE and number % 5 == 3) as proxy:
        write(proxy.address, batches, KEYED, topic=topic, **{"kafka.batch.size": "1000"})
    assert proxy.cuts > 3
    assert read_all(bootstrap, topic, keep=lambda message: message.key()) == [b"%05d" % n for n in range(2000)]


def test_a_broker_that_restarts_under_a_writer(start_broker: Callable[..., Any]) -> None:
    broker = start_broker()
    create_topic(broker.address, "t")
    keys = [b"%05d" % number for number in range(2000)]

    def batches() -> Any:
        for at in range(0, 2000, 50):
            if at == 1000:
                broker.kill()
                broker.start()
            yield keyed_batch(keys[at : at + 50])

    options = {"kafka.batch.size": "1000", "topic": "t"}
    source(broker.address, options).writer(KEYED, overwrite=False).write(batches())
    assert read_all(broker.address, "t", keep=lambda message: message.key()) == keys


def test_tasks_of_one_worker_share_their_connection_until_one_fails(bootstrap: str, topic: str) -> None:
    def connections_after(batch: pa.RecordBatch) -> int:
        write(proxy.address, [batch], VALUE, topic=topic)
        return proxy.requests_by_key[API_VERSIONS]

    with CuttingProxy(bootstrap, lambda *_: False) as proxy:
        first = connections_after(values_batch([b"1"]))
        assert connections_after(values_batch([b"2"])) == first
        with pytest.raises(RowError):
            write(proxy.address, [values_batch([b"v" * 2_000_000])], VALUE, topic=topic)
        assert connections_after(values_batch([b"3"])) == 2 * first
    assert sorted(row["value"] for row in read_batch(bootstrap, subscribe=topic)) == [b"1", b"2", b"3"]


def test_tasks_of_one_worker_are_one_producer_until_one_fails_or_a_connection_breaks(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    """Their sequences go on: with those of the task before, rows would be taken for such as have arrived already."""
    topic = new_topic()

    def producers_after(number: int) -> int:
        write(proxy.address, [values_batch([b"%d.1" % number, b"%d.2" % number])], VALUE, topic=topic)
        return proxy.requests_by_key[INIT_PRODUCER_ID]

    with CuttingProxy(bootstrap, lambda *_: False) as proxy:
        assert [producers_after(number) for number in (1, 2, 3)] == [1, 1, 1]
        with pytest.raises(RowError):
            write(proxy.address, [values_batch([b"v" * 2_000_000])], VALUE, topic=topic)
        assert producers_after(4) == 2
        proxy.cut_when = lambda api_key, _: api_key == PRODUCE and not proxy.cuts
        assert producers_after(5) == 2
        assert proxy.cuts == 1
        assert [producers_after(number) for number in (6, 7)] == [3, 3]
    expected = [b"%d.%d" % (number, row) for number in range(1, 8) for row in (1, 2)]
    assert read_all(bootstrap, topic, keep=lambda message: message.value()) == expected


def test_partitions_that_are_added_between_two_tasks_are_written(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    schema = StructType([*VALUE.fields, StructField("partition", IntegerType())])
    for partition in (0, 1):
        if partition:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_partitions([NewPartitions(topic, partition + 1)])[topic].result()
        batch = pa.record_batch([pa.array([b"v"]), pa.array([partition], pa.int32())], names=["value", "partition"])
        assert write(bootstrap, [batch], schema, topic=topic).arrived == {TopicPartition(topic, partition): (1, 1)}


def test_a_topic_that_is_created_anew_between_two_tasks(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    for value in (b"old", b"new"):
        if value == b"new":
            delete_topic(bootstrap, topic)
            create_topic(bootstrap, topic)
        write(bootstrap, [values_batch([value])], VALUE, topic=topic)
    assert read_all(bootstrap, topic, keep=lambda message: message.value()) == [b"new"]


def test_a_broker_that_restarts_between_two_tasks(start_broker: Callable[..., Any]) -> None:
    broker = start_broker()
    create_topic(broker.address, "t")
    for value in (b"before", b"after"):
        write(broker.address, [values_batch([value])], VALUE, topic="t")
        broker.kill()
        broker.start()
    assert read_all(broker.address, "t", keep=lambda message: message.value()) == [b"before", b"after"]


def test_no_broker_at_all() -> None:
    options = {"topic": "t", "kafka.default.api.timeout.ms": "100"}
    with pytest.raises(ClientError, match=r"cannot connect to 127\.0\.0\.1:1"):
        write("127.0.0.1:1", [values_batch([b"v"])], VALUE, **options)
