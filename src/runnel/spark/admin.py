"""`format("runnel-admin")`: the state of a cluster as DataFrames: lag, queried, joined and plotted in SQL.

In: `kafka.bootstrap.servers` and `table`, one of `TABLES`. Out: one small table, read once, when the query runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from runnel.client.cluster import Cluster
from runnel.client.configs import ConfigResource, ResourceType, describe_configs
from runnel.client.errors import ClientError, refused
from runnel.client.groups import CLASSIC, CONSUMER, list_groups
from runnel.client.lag import GroupLag, group_lags
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import bounds
from runnel.spark.errors import OptionError
from runnel.spark.kafka_options import BrokerSettings, broker_settings, kafka_settings
from runnel.spark.worker_daemon import quieten
from runnel.wire.errors import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

CLIENT_ID = "runnel-spark-admin"
Row: TypeAlias = tuple[Any, ...]
Name = TypeVar("Name")
Value = TypeVar("Value")
_GONE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.BROKER_NOT_AVAILABLE)
_FORBIDDEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)


async def brokers(cluster: Cluster) -> AsyncIterator[Row]:
    view = await cluster.refresh(())
    for broker in view.brokers.values():
        host, port = broker.address.host, broker.address.port
        yield broker.node_id, host, port, broker.rack, broker.node_id == view.controller_id


async def topics(cluster: Cluster) -> AsyncIterator[Row]:
    view = await cluster.refresh(None)
    for topic in view.topics.values():
        yield topic.name, str(topic.topic_id), len(topic.partitions), topic.replication_factor, topic.internal


async def partitions(cluster: Cluster) -> AsyncIterator[Row]:
    view = await cluster.refresh(None)
    rows = {
        TopicPartition(topic.name, partition.index): partition
        for topic in view.topics.values()
        for partition in topic.partitions
    }
    limits = await bounds(cluster, [target for target, row in rows.items() if not row.is_offline])
    for target, row in rows.items():
        limit = limits.get(target)
        start, end = (limit.start, limit.end) if limit is not None else (None, None)
        yield (*target, row.leader_id, row.leader_epoch, list(row.replicas), list(row.isr), start, end)


async def groups(cluster: Cluster) -> AsyncIterator[Row]:
    for group_id, lag in await _lags(cluster):
        yield group_id, lag.view.type, lag.view.state, len(lag.view.members), lag.total


async def group_partitions(cluster: Cluster) -> AsyncIterator[Row]:
    for group_id, lag in await _lags(cluster):
        for row in lag.rows:
            committed = row.committed.offset if row.committed is not None else None
            member = row.owner.member_id if row.owner is not None else None
            yield (group_id, *row.target, committed, row.end_offset, row.lag, member)


async def configs(cluster: Cluster) -> AsyncIterator[Row]:
    view = await cluster.refresh(None)
    wanted = [ConfigResource(ResourceType.TOPIC, name) for name in view.topics]
    wanted += [ConfigResource(ResourceType.BROKER, str(node_id)) for node_id in view.brokers]
    for resource, entries in _present(await describe_configs(cluster, wanted)):
        for entry in entries:
            kind = resource.type.name.lower()
            yield kind, resource.name, entry.name, entry.value, entry.source, entry.read_only, entry.sensitive


async def _lags(cluster: Cluster) -> list[tuple[str, GroupLag]]:
    """Of consumer groups: those of other types (share, streams) have no lag of this kind."""
    listed = [group.group_id for group in await list_groups(cluster) if group.type in (CLASSIC, CONSUMER)]
    lags = await group_lags(cluster, listed)
    for topic in cluster.view.topics.values():
        if topic.error_code in _FORBIDDEN:
            raise _told(refused(topic.error_code, f"topic '{topic.name}'"))
    return list(_present(lags))


def _present(found: Mapping[Name, Value | ClientError]) -> Iterator[tuple[Name, Value]]:
    """What was deleted since it was listed is no row; whatever else is not told is an error, not an absence."""
    for name, value in found.items():
        if not isinstance(value, ClientError):
            yield name, value
        elif value.code not in _GONE:
            raise _told(value)


def _told(error: ClientError) -> ClientError:
    if error.code not in _FORBIDDEN:
        return error
    needed = "Describe on all topics and groups, and for the table configs DescribeConfigs on all topics and brokers"
    return ClientError(f"{error.message}; runnel-admin needs ACLs that allow {needed}", code=error.code)


class AdminTable(NamedTuple):
    schema: str
    rows: Callable[[Cluster], AsyncIterator[Row]]


TABLES = {
    "brokers": AdminTable("id int, host string, port int, rack string, is_controller boolean", brokers),
    "topics": AdminTable(
        "topic string, topic_id string, partitions int, replication_factor int, internal boolean", topics
    ),
    "partitions": AdminTable(
        "topic string, partition int, leader int, leader_epoch int, replicas array<int>, isr array<int>, "
        "start_offset long, end_offset long",
        partitions,
    ),
    "groups": AdminTable("group string, type string, state string, members int, lag long", groups),
    "lag": AdminTable(
        "group string, topic string, partition int, committed_offset long, end_offset long, lag long, member string",
        group_partitions,
    ),
    "configs": AdminTable(
        "resource_type string, resource string, name string, value string, source string, read_only boolean, "
        "sensitive boolean",
        configs,
    ),
}


quieten()  # the processes in which Spark plans come here first


class AdminDataSource(DataSource):
    """Topics, partitions, groups, their lag and configs, as they are when the query runs."""

    @classmethod
    def name(cls) -> str:
        return "runnel-admin"

    def schema(self) -> str:
        return self._table().schema

    def reader(self, schema: StructType) -> DataSourceReader:
        columns = [column.split()[0] for column in self._table().schema.split(", ")]
        reader = AdminReader(self.options["table"].lower(), broker_settings(kafka_settings(self.options)))
        if schema.names != columns:  # rows come in this order, whatever is asked for
            raise OptionError(f"the table has the columns {', '.join(columns)}: leave schema(...) out, and use select")
        return reader

    def _table(self) -> AdminTable:
        name = self.options.get("table", "").lower()
        if name not in TABLES:
            wrong = f"there is no table '{name}'" if name else "option table is missing"
            raise OptionError(f"{wrong}: it is one of {', '.join(TABLES)}")
        return TABLES[name]


class AdminReader(DataSourceReader):
    def __init__(self, table: str, brokers: BrokerSettings) -> None:
        self._table = table
        self._brokers = brokers

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        yield from asyncio.run(self._rows())

    async def _rows(self) -> list[Row]:
        at = self._brokers
        async with Cluster(
            at.bootstrap, client_id=CLIENT_ID, timeout_s=at.request_timeout_s, security=at.security
        ) as cluster:
            return [row async for row in TABLES[self._table].rows(cluster)]
