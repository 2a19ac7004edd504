"""Records for tests of the source: produced through librdkafka, read by the source's own classes without a JVM."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.types import NullType, StructField, StructType

from runnel.spark.admin import AdminDataSource
from runnel.spark.batch_reader import BatchReader
from runnel.spark.source import RunnelDataSource
from runnel.spark.stream_reader import StreamReader

DELIVERY_S = 60
BASE_MS = int(time.time()) * 1000 - 3_600_000
"""The timestamp of record 0: an hour ago, so that retention lets it be."""


class Sent(NamedTuple):
    value: bytes | None = None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


def produce(bootstrap: str, topic: str, records: Iterable[Sent], **settings: Any) -> None:
    """All records, acknowledged; each partition gets its own in order."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(DELIVERY_S) == 0
    assert failures == []


def numbered(count: int, partition: int = 0, first: int = 0) -> list[Sent]:
    return [
        Sent(b"%d" % number, b"k%d" % number, partition, BASE_MS + number) for number in range(first, first + count)
    ]


def source(bootstrap: str, options: Mapping[str, str]) -> RunnelDataSource:
    return RunnelDataSource(CaseInsensitiveDict({"kafka.bootstrap.servers": bootstrap, **options}))


def read_admin(bootstrap: str, table: str, **options: str) -> list[dict[str, object]]:
    """A whole table of `runnel-admin`."""
    given = {"kafka.bootstrap.servers": bootstrap, "table": table, **options}
    admin = AdminDataSource(CaseInsensitiveDict(given))
    names = [column.split()[0] for column in admin.schema().split(", ")]
    schema = StructType([StructField(name, NullType()) for name in names])
    rows = admin.reader(schema).read(InputPartition(0))
    return [dict(zip(names, row, strict=True)) for row in rows]


def batch_reader(bootstrap: str, **options: str) -> BatchReader:
    found = source(bootstrap, options)
    reader = found.reader(found.schema())
    assert isinstance(reader, BatchReader)
    return reader


def stream_reader(bootstrap: str, **options: str) -> StreamReader:
    found = source(bootstrap, options)
    reader = found.streamReader(found.schema())
    assert isinstance(reader, StreamReader)
    return reader


def read(reader: BatchReader | StreamReader, tasks: Iterable[Any]) -> list[dict[str, Any]]:
    """What the tasks yield, as Spark would see it, by partition and offset."""
    batches = [batch for task in tasks for batch in reader.read(task)]
    rows = pa.Table.from_batches(batches).to_pylist() if batches else []
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def read_batch(bootstrap: str, **options: str) -> list[dict[str, Any]]:
    reader = batch_reader(bootstrap, **options)
    return read(reader, reader.partitions())


def values(rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [row["value"] for row in rows]
