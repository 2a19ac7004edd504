"""Topics as Spark DataFrames: the `runnel` source and sink, and a session that finds its Java (extra `runnel[spark]`).

Owns: everything that runs inside Spark, on the driver and on executors. In: options as Spark's Kafka connector takes
them. Out: Arrow batches into Spark, record batches out of it. Imports `runnel.wire`, `runnel.client` and third parties
only, so that executors need no broker code.

    from runnel.spark import session

    spark = session()
    orders = spark.read.format("runnel").option("kafka.bootstrap.servers", "localhost:9092").option(
        "subscribe", "orders"
    ).load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnel.spark.formats.avro_values import from_avro
    from runnel.spark.formats.json_values import from_json, infer_json_schema
    from runnel.spark.formats.protobuf_values import from_protobuf
    from runnel.spark.progress import offsets_behind_latest
    from runnel.spark.spark_session import session

__all__ = ["from_avro", "from_json", "from_protobuf", "infer_json_schema", "offsets_behind_latest", "session"]

# Name -> module. Imported on demand: an executor that decodes batches must not pay for what the driver uses.
_EXPORTS = {
    "from_avro": "runnel.spark.formats.avro_values",
    "from_json": "runnel.spark.formats.json_values",
    "from_protobuf": "runnel.spark.formats.protobuf_values",
    "infer_json_schema": "runnel.spark.formats.json_values",
    "offsets_behind_latest": "runnel.spark.progress",
    "session": "runnel.spark.spark_session",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'runnel.spark' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_EXPORTS[name]), name)
