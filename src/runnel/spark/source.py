"""`format("runnel")`: the door through which Spark comes in, for batch and stream, reading and writing.

In: options and schemas. Out: readers and writers. Spark imports this module in short-lived processes on the driver, so
nothing heavy is imported until it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
)

from runnel.spark.row_schema import check_schema, default_schema
from runnel.spark.source_options import parse_source_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class RunnelDataSource(DataSource):
    """Topics of Runnel, or of any Kafka broker, as DataFrames."""

    @classmethod
    def name(cls) -> str:
        return "runnel"

    def schema(self) -> StructType:
        return default_schema(parse_source_options(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from runnel.spark.batch_reader import BatchReader

        check_schema(schema)
        return BatchReader(parse_source_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from runnel.spark.stream_reader import StreamReader

        check_schema(schema)
        return StreamReader(parse_source_options(self.options), schema)
