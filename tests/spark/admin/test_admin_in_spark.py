"""`format("runnel-admin")` inside Spark: every table read and queried in SQL, and mistakes told in plain words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import AnalysisException, PySparkException

from spark.records import numbered, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Table = Callable[..., "DataFrame"]


@pytest.fixture
def table(spark: SparkSession, bootstrap: str) -> Table:
    def read(name: str, **options: str) -> DataFrame:
        reader = spark.read.format("runnel-admin").option("kafka.bootstrap.servers", bootstrap)
        return reader.option("table", name).options(**options).load()

    return read


class Shop(NamedTuple):
    topic: str
    group: str


@pytest.fixture
def shop(bootstrap: str, new_topic: Callable[..., str], new_name: Callable[[], str]) -> Shop:
    """A topic with 7 and 4 records, and a group that has read 5 and 4 of them."""
    topic, group = new_topic(partitions=2, retention_ms=86_400_000), new_name()
    produce(bootstrap, topic, [*numbered(7), *numbered(4, 1)])
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 4)], asynchronous=False)
    consumer.close()
    return Shop(topic, group)


def types(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def test_brokers(table: Table, bootstrap: str) -> None:
    frame = table("brokers")
    assert types(frame) == {
        "id": "int",
        "host": "string",
        "port": "int",
        "rack": "string",
        "is_controller": "boolean",
    }
    (row,) = frame.collect()
    assert f"{row.host}:{row.port}" == bootstrap
    assert row.is_controller


def test_topics_and_partitions(table: Table, shop: Shop) -> None:
    (topic,) = table("topics").filter(f"topic = '{shop.topic}'").collect()
    assert (topic.partitions, topic.replication_factor, topic.internal) == (2, 1, False)
    assert len(topic.topic_id) == 36
    rows = table("partitions").filter(f"topic = '{shop.topic}'").orderBy("partition").collect()
    assert [(row.partition, row.start_offset, row.end_offset) for row in rows] == [(0, 0, 7), (1, 0, 4)]
    assert all(row.replicas == row.isr == [row.leader] for row in rows), "arrays of numbers"


def test_groups_and_their_lag(table: Table, shop: Shop) -> None:
    (group,) = table("groups").filter(f"group = '{shop.group}'").collect()
    assert (group.state, group.members, group.lag) == ("Empty", 0, 2)
    rows = table("lag").filter(f"group = '{shop.group}'").orderBy("partition").collect()
    assert [tuple(row) for row in rows] == [
        (shop.group, shop.topic, 0, 5, 7, 2, None),
        (shop.group, shop.topic, 1, 4, 4, 0, None),
    ]


def test_configs(table: Table, shop: Shop) -> None:
    frame = table("configs")
    (row,) = frame.filter(f"resource = '{shop.topic}' and name = 'retention.ms'").collect()
    assert (row.resource_type, row.value, row.read_only, row.sensitive) == ("topic", "86400000", False, False)
    assert frame.filter("resource_type = 'broker'").count() > 10


def test_lag_joined_with_topics_in_sql(spark: SparkSession, table: Table, shop: Shop, bootstrap: str) -> None:
    table("lag").createOrReplaceTempView("lag")
    table("topics").createOrReplaceTempView("topics")
    query = f"""
        select l.topic, t.partitions, sum(l.lag) as behind, sum(l.lag) / sum(l.end_offset) as share
        from lag l join topics t on t.topic = l.topic
        where l.group = '{shop.group}' and not t.internal
        group by l.topic, t.partitions
    """
    assert [tuple(row) for row in spark.sql(query).collect()] == [(shop.topic, 2, 2, 2 / 11)]
    produce(bootstrap, shop.topic, numbered(3, 1))
    assert spark.sql(query).collect()[0].behind == 5, "as it is when the query runs"


MISTAKES = [
    ({"table": "consumers"}, "there is no table 'consumers': it is one of brokers, topics, partitions, groups, lag"),
    ({"table": ""}, "option table is missing: it is one of brokers, topics"),
    ({"table": "lag", "kafka.bootstrap.servers": "here:port"}, r"option kafka\.bootstrap\.servers: "),
    (
        {"table": "lag", "kafka.security.protocol": "SASL_SSL"},
        r"option kafka\.sasl\.mechanism is GSSAPI: this client has",
    ),
]


@pytest.mark.parametrize(("options", "complaint"), MISTAKES)
def test_mistakes_are_told_in_the_words_of_the_cure(table: Table, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(AnalysisException, match=complaint):
        table(options["table"], **options).collect()


def test_a_broker_that_is_not_there(table: Table) -> None:
    away = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "500"}
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1"):
        table("topics", **away).collect()
