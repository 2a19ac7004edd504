"""The same query through Spark's own Kafka connector and through ours, on the same broker: same rows, same offsets.

With RUNNEL_TEST_BOOTSTRAP these run against Apache Kafka; transactions and compaction are compared where the broker
has them. `format("kafka")` on Runnel is proven by the way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException

from harness.conditions import wait_until
from harness.topics import create_topic
from runnel.spark import offsets_behind_latest
from spark.records import BASE_MS, Sent, numbered, produce
from spark.test_batch_reader import delete_records, delete_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUERY_S = 180
OURS, THEIRS = "runnel", "kafka"

pytestmark = pytest.mark.usefixtures("official")


@pytest.fixture
def topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    """Two partitions with records of every codec and one that is empty."""
    name = new_topic(partitions=3)
    for number, codec in enumerate(CODECS):
        first = 40 * number
        headers = (("codec", codec.encode()), ("none", None))
        records = [Sent(None, b"tombstone", 1, BASE_MS + first, headers), Sent(b"", None, 0, BASE_MS + first)]
        records += [*numbered(30, 0, first), *numbered(10, 1, first + 30)]
        produce(bootstrap, name, records, **{"compression.type": codec})
    return name


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    rows = [tuple(row.asDict(recursive=True).items()) for row in frame.collect()]
    return sorted(rows, key=lambda row: [value for name, value in row if name in ("topic", "partition", "offset")])


def both(load: Callable[..., DataFrame], **options: str) -> list[tuple[Any, ...]]:
    """What both read, which must be the same."""
    ours, theirs = rows_of(load(OURS, **options)), rows_of(load(THEIRS, **options))
    assert ours == theirs
    return ours


def test_every_column_codec_and_header(load: Callable[..., DataFrame], topic: str) -> None:
    assert len(both(load, subscribe=topic, includeHeaders="true")) == 210
    ours, theirs = (
        load(OURS, subscribe=topic, includeHeaders="true"),
        load(THEIRS, subscribe=topic, includeHeaders="true"),
    )
    assert ours.schema == theirs.schema


def batch_cases(topic: str) -> dict[str, dict[str, str]]:
    offsets = f'{{"{topic}":{{"0":%s,"1":%s,"2":%s}}}}'
    return {
        "offsets": {"startingOffsets": offsets % (5, -2, 0), "endingOffsets": offsets % (50, 20, -1)},
        "one record": {"startingOffsets": offsets % (5, 10, 0), "endingOffsets": offsets % (6, 10, 0)},
        "timestamps": {"startingTimestamp": str(BASE_MS + 20), "endingTimestamp": str(BASE_MS + 100)},
        "timestamps by partition": {
            "startingOffsetsByTimestamp": offsets % (BASE_MS, BASE_MS + 50, 0),
            "endingOffsetsByTimestamp": offsets % (BASE_MS + 30, BASE_MS + 10**9, 10**13),
        },
        "precedence": {"startingTimestamp": str(BASE_MS + 90), "startingOffsets": "earliest"},
        "many tasks": {"minPartitions": "9"},
        "small tasks": {"maxRecordsPerPartition": "13"},
        "pattern": {"subscribePattern": topic[:-1] + "."},
        "assign": {"assign": f'{{"{topic}":[1,2]}}'},
        "committed only": {"kafka.isolation.level": "read_committed"},
    }


@pytest.mark.parametrize("case", list(batch_cases("t")))
def test_batch(load: Callable[..., DataFrame], topic: str, case: str) -> None:
    options = batch_cases(topic)[case]
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    strategy = {} if options.keys() & {"subscribePattern", "assign"} else {"subscribe": topic}
    assert both(load, **strategy, **latest, **options) != []


TOPIC = "TOPIC"
"""In these options it stands for the name of a topic that is there: nothing else can be wrong."""
REFUSED_BY_BOTH: list[dict[str, str]] = [
    {},
    {"subscribe": TOPIC, "assign": '{"TOPIC":[0]}'},
    {"subscribe": ""},
    {"subscribePattern": " "},
    {"assign": TOPIC},
    {"subscribe": TOPIC, "startingOffsets": "latest"},
    {"subscribe": TOPIC, "startingOffsets": "soon"},
    {"subscribe": TOPIC, "startingOffsets": '{"TOPIC":{"0":-1}}'},
    {"subscribe": TOPIC, "endingOffsets": "earliest"},
    {"subscribe": TOPIC, "endingOffsets": '{"TOPIC":{"0":-2}}'},
    {"subscribe": TOPIC, "startingOffsets": '{"TOPIC":{"0":5}}', "endingOffsets": '{"TOPIC":{"0":4}}'},
    {"subscribe": TOPIC, "startingOffsets": '{"TOPIC":{"0":5}}', "endingOffsets": '{"b":{"0":7}}'},
    {"subscribe": TOPIC, "startingTimestamp": "noon"},
    {"subscribe": TOPIC, "startingOffsetsByTimestamp": "7"},
    {"subscribe": TOPIC, "minPartitions": "0"},
    {"subscribe": TOPIC, "minPartitions": "x"},
    {"subscribe": TOPIC, "maxRecordsPerPartition": "0"},
    {"subscribe": TOPIC, "minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"},
    {"subscribe": TOPIC, "kafka.auto.offset.reset": "earliest"},
    {"subscribe": TOPIC, "kafka.key.deserializer": "x"},
    {"subscribe": TOPIC, "kafka.value.deserializer": "x"},
    {"subscribe": TOPIC, "kafka.enable.auto.commit": "true"},
    {"subscribe": TOPIC, "kafka.interceptor.classes": "x"},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", REFUSED_BY_BOTH, ids=str)
def test_what_they_refuse_we_refuse(load: Callable[..., DataFrame], topic: str, options: dict[str, str]) -> None:
    given = {name: value.replace(TOPIC, topic) for name, value in options.items()}
    with pytest.raises((PySparkException, Py4JJavaError)):  # some come as Java threw them
        load(THEIRS, **given).count()
    with pytest.raises(PySparkException, match="OptionError"):
        load(OURS, **given).count()


def test_deleted_records_and_added_partitions(load: Callable[..., DataFrame], bootstrap: str, topic: str) -> None:
    delete_records(bootstrap, topic, 0, 33)
    add_partition(bootstrap, topic, 4)
    produce(bootstrap, topic, numbered(3, 3))
    assert len(both(load, subscribe=topic)) == 210 - 33 + 3


@pytest.mark.slow
def test_records_that_expire_before_a_task_begins(load: Callable[..., DataFrame], bootstrap: str, topic: str) -> None:
    planned = {
        connector: load(connector, subscribe=topic).select("partition", "offset").rdd for connector in (OURS, THEIRS)
    }
    assert all(rows.getNumPartitions() for rows in planned.values())
    delete_records(bootstrap, topic, 0, 33)
    ours, theirs = (sorted(map(tuple, planned[connector].collect())) for connector in (OURS, THEIRS))
    assert ours == theirs
    assert len(ours) == 210 - 33


def add_partition(bootstrap: str, topic: str, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_partitions([NewPartitions(topic, total)]).values():
        done.result()
    wait_until(lambda: len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == total, "the new partition")


@pytest.fixture
def transactional_topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    """Committed, aborted and plain records among each other; skips where the broker has no transactions."""
    name = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 5})
    try:
        producer.init_transactions(5)
    except KafkaException as error:
        pytest.skip(f"the broker has no transactions yet: {error}")
    for number in range(12):
        produce(bootstrap, name, [Sent(b"plain")])
        producer.begin_transaction()
        for _ in range(number):
            producer.produce(name, b"%d" % number)
        producer.flush(30)
        produce(bootstrap, name, [Sent(b"between")])
        producer.abort_transaction(30) if number % 3 == 0 else producer.commit_transaction(30)
    return name


@pytest.mark.slow
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions(load: Callable[..., DataFrame], transactional_topic: str, level: str) -> None:
    rows = both(load, subscribe=transactional_topic, **{"kafka.isolation.level": level})
    aborted = sum(number for number in range(12) if number % 3 == 0)
    assert len(rows) == 24 + sum(range(12)) - (aborted if level == "read_committed" else 0)


# Streams --------------------------------------------------------------------------------------------------------


class Side:
    """One connector's query over the same topic: its rows and its offsets, run by run."""

    def __init__(self, run_stream: Callable[..., Any], connector: str) -> None:
        self.connector = connector
        self.rows: list[tuple[Any, ...]] = []
        self.ends: list[Any] = []
        self.behind: list[dict[str, float]] = []
        self._run = run_stream

    def run(self, **options: str) -> None:
        query = self._run(f"checkpoint-{self.connector}", self._collect, self.connector, **options)
        sources = [progress.sources[0] for progress in query.recentProgress if progress.numInputRows]
        self.ends += [json.loads(source.endOffset) for source in sources]
        self.behind += [self._behind(source) for source in sources]

    def _behind(self, source: Any) -> dict[str, float]:
        if self.connector == OURS:
            return {name: round(value, 1) for name, value in offsets_behind_latest(source).items()}  # as theirs are
        return {name: float(value) for name, value in source.metrics.items()}

    def _collect(self, batch: DataFrame) -> None:
        self.rows += rows_of(batch)


@pytest.fixture
def sides(run_stream: Callable[..., Any]) -> list[Side]:
    return [Side(run_stream, connector) for connector in (OURS, THEIRS)]


def agree(sides: list[Side]) -> list[tuple[Any, ...]]:
    ours, theirs = sides
    assert ours.rows == theirs.rows
    assert ours.ends == theirs.ends
    assert ours.behind == theirs.behind
    return ours.rows


def test_a_stream_in_steps(bootstrap: str, topic: str, sides: list[Side]) -> None:
    """Rate-limited, restarted, with a partition added in between."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "80"}
    for side in sides:
        side.run(**options)
    assert len(agree(sides)) == 210
    assert sides[0].behind[0]["maxOffsetsBehindLatest"] > 0 == sides[0].behind[-1]["maxOffsetsBehindLatest"]
    add_partition(bootstrap, topic, 4)
    produce(bootstrap, topic, [*numbered(7, 3), *numbered(5, 0)])
    for side in sides:
        side.run(**options)
    assert len(agree(sides)) == 222


@pytest.mark.slow
def test_a_query_that_starts_at_the_end_and_fails_at_first(
    bootstrap: str, topic: str, sides: list[Side], run_stream: Callable[..., Any]
) -> None:
    def fail(batch: DataFrame) -> None:
        raise RuntimeError("not yet")

    for side in sides:
        with pytest.raises(StreamingQueryException, match="not yet"):
            run_stream(f"checkpoint-{side.connector}", fail, side.connector, subscribe=topic)
    produce(bootstrap, topic, [*numbered(7, 2), *numbered(5, 0)])
    for side in sides:
        side.run(subscribe=topic)
    assert len(agree(sides)) == 12


@pytest.mark.slow
def test_expired_offsets(bootstrap: str, topic: str, sides: list[Side]) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    for side in sides:
        side.run(**options)
    produce(bootstrap, topic, numbered(20))
    delete_records(bootstrap, topic, 0, 170)
    for side in sides:
        with pytest.raises(StreamingQueryException, match="Some data may have been lost"):
            side.run(**options)
    for side in sides:
        side.run(failOnDataLoss="false", **options)
    assert len(agree(sides)) == 210 + 5


@pytest.mark.slow
def test_a_deleted_topic(bootstrap: str, new_name: Callable[[], str], sides: list[Side]) -> None:
    prefix = new_name()
    for name in ("a", "b"):
        create_topic(bootstrap, f"{prefix}-{name}")
        produce(bootstrap, f"{prefix}-{name}", numbered(5))
    options = {"subscribePattern": f"{prefix}-.", "startingOffsets": "earliest"}
    for side in sides:
        side.run(**options)
    delete_topic(bootstrap, f"{prefix}-a")
    produce(bootstrap, f"{prefix}-b", numbered(5))
    for side in sides:
        with pytest.raises(StreamingQueryException, match="Some data may have been lost"):
            side.run(**options)
    for side in sides:
        side.run(failOnDataLoss="false", **options)
    assert len(agree(sides)) == 15


@pytest.mark.slow
def test_a_topic_created_anew(bootstrap: str, new_name: Callable[[], str], sides: list[Side]) -> None:
    name = new_name()
    create_topic(bootstrap, name)
    produce(bootstrap, name, numbered(10))
    options = {"subscribe": name, "startingOffsets": "earliest"}
    for side in sides:
        side.run(**options)
    delete_topic(bootstrap, name)
    create_topic(bootstrap, name)
    produce(bootstrap, name, numbered(4))
    for side in sides:
        with pytest.raises(StreamingQueryException):
            side.run(**options)


@pytest.mark.slow
def test_a_query_moves_from_their_connector_to_ours(bootstrap: str, topic: str, run_stream: Callable[..., Any]) -> None:
    """The same checkpoint, another format name, nothing read twice and nothing left out."""
    seen: list[tuple[Any, ...]] = []
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    run_stream("moving", lambda batch: seen.extend(rows_of(batch)), THEIRS, **options)
    produce(bootstrap, topic, numbered(9, 2))
    run_stream("moving", lambda batch: seen.extend(rows_of(batch)), OURS, **options)
    assert len(seen) == len(set(seen)) == 219


# The sink -------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(spark: Any, bootstrap: str, new_topic: Callable[..., str]) -> Callable[[str], list[Any]]:
    def write(connector: str) -> list[Any]:
        name = new_topic(partitions=5)
        frame = spark.range(500).selectExpr(
            "if(id % 7 = 0, null, string(id)) key",
            "if(id % 11 = 0, null, concat('v', id)) value",
            "if(id % 3 = 0, null, array(named_struct('key', 'h', 'value', binary(string(id))))) headers",
            "if(id % 7 = 0, 3, null) partition",
        )
        writer = frame.coalesce(1).write.format(connector).option("kafka.bootstrap.servers", bootstrap)
        writer.option("topic", name).mode("append").save()
        reader = spark.read.format(THEIRS).option("kafka.bootstrap.servers", bootstrap).option("includeHeaders", "true")
        columns = ("partition", "offset", "key", "value", "headers")
        return [
            tuple(value for field, value in row if field in columns)
            for row in rows_of(reader.option("subscribe", name).load())
        ]

    return write


def test_both_sinks_put_every_record_into_the_same_place(written: Callable[[str], list[Any]], tmp_path: Path) -> None:
    """Equal keys into equal partitions, in the same order: that is what a mixed fleet of writers relies on."""
    ours = written(OURS)
    assert len(ours) == 500
    assert ours == written(THEIRS)
