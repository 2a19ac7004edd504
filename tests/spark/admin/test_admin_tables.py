"""The admin tables, read from a real broker: every row has its schema's columns, and says what is so."""

import asyncio
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from client.scripted import Answer, Script, answering, scripted_server
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.spark.admin import TABLES, AdminDataSource
from runnel.spark.errors import OptionError
from runnel.testing.broker import Broker
from runnel.wire.apis import KAFKA_RANGES, ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct
from spark.records import read_admin


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    with Broker() as broker:
        broker.create_topic("orders", partitions=2, configs={"retention.ms": "60000"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(10):
            producer.produce("orders", value=str(number), partition=number % 2)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 2), TopicPartition("orders", 1, 5)], asynchronous=False)
        consumer.close()
        yield broker


def read(broker: Broker, table: str) -> list[dict[str, object]]:
    return read_admin(broker.bootstrap_servers, table)


def test_topics_and_partitions(broker: Broker) -> None:
    orders = next(row for row in read(broker, "topics") if row["topic"] == "orders")
    assert (orders["partitions"], orders["replication_factor"], orders["internal"]) == (2, 1, False)
    found = [row for row in read(broker, "partitions") if row["topic"] == "orders"]
    assert [(row["partition"], row["start_offset"], row["end_offset"]) for row in found] == [(0, 0, 5), (1, 0, 5)]
    assert all(row["replicas"] == row["isr"] == [row["leader"]] for row in found)


def test_lag_is_the_distance_to_the_end(broker: Broker) -> None:
    rows = [row for row in read(broker, "lag") if row["group"] == "shop"]
    assert [(row["partition"], row["committed_offset"], row["lag"]) for row in rows] == [(0, 2, 3), (1, 5, 0)]
    group = next(row for row in read(broker, "groups") if row["group"] == "shop")
    assert (group["state"], group["members"], group["lag"]) == ("Empty", 0, 3)


def test_configs_tell_where_they_come_from(broker: Broker) -> None:
    rows = read(broker, "configs")
    retention = next(row for row in rows if row["resource"] == "orders" and row["name"] == "retention.ms")
    assert retention["value"] == "60000"
    assert {row["resource_type"] for row in rows} == {"topic", "broker"}


def test_brokers(broker: Broker) -> None:
    (row,) = read(broker, "brokers")
    assert f"{row['host']}:{row['port']}" == broker.bootstrap_servers
    assert row["is_controller"] is True


def forbidding(listed: str) -> Script:
    """A broker with one group of that type, which nobody may describe."""
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    node = {"node_id": 0, "host": "127.0.0.1"}

    def metadata(_: Struct) -> dict[str, object]:
        return {"brokers": [{**node, "port": ports[0], "rack": None}], "controller_id": 0, "topics": []}

    def coordinator(_: Struct) -> dict[str, object]:
        return {"coordinators": [{"key": "shop", **node, "port": ports[0], "error_code": 0}]}

    answers: dict[ApiKey, Answer] = {
        ApiKey.METADATA: metadata,
        ApiKey.FIND_COORDINATOR: coordinator,
        ApiKey.LIST_GROUPS: {"groups": [{"group_id": "shop", "protocol_type": "", "group_type": listed}]},
        ApiKey.DESCRIBE_GROUPS: {"groups": [{"group_id": "shop", "error_code": code}]},
    }
    ports: list[int] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.append(writer.get_extra_info("sockname")[1])
        await answering({key: KAFKA_RANGES[key] for key in answers}, answers)(reader, writer)

    return script


@pytest.mark.parametrize("table", ["groups", "lag"])
def test_what_may_not_be_seen_is_an_error_and_not_an_absence(table: str) -> None:
    async def rows(listed: str) -> list[object]:
        async with scripted_server(forbidding(listed)) as address, Cluster(str(address)) as cluster:
            return [row async for row in TABLES[table].rows(cluster)]

    with pytest.raises(ClientError, match=r"not allowed to use group 'shop'.*; runnel-admin needs ACLs that allow Des"):
        asyncio.run(rows("classic"))
    assert asyncio.run(rows("share")) == [], "a group of another type has no lag of this kind"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "consumers"}, "one of brokers, topics"),
        ({}, "option table is missing"),
        ({"table": "topics"}, "kafka.bootstrap.servers is missing"),
        (
            {"table": "topics", "kafka.bootstrap.servers": "h:1", "kafka.security.protocol": "KERBEROS"},
            "security.protocol is",
        ),
        ({"table": "brokers", "kafka.bootstrap.servers": "h:1"}, r"leave schema\(...\) out, and use select"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        AdminDataSource(CaseInsensitiveDict(options)).reader(StructType([]))
