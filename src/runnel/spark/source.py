"""`format("runnel")`: the door through which Spark comes in, for batch and stream, reading and writing.

In: options and schemas. Out: readers and writers. Spark imports this module in short-lived processes on the driver, so
nothing heavy is imported until it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)

from runnel.spark.errors import OptionError
from runnel.spark.row_schema import check_schema, default_schema
from runnel.spark.settling import settle
from runnel.spark.source_options import parse_source_options
from runnel.spark.worker_daemon import quieten

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


quieten()  # the processes in which Spark plans come here first


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

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from runnel.spark.sink_options import parse_sink_options
        from runnel.spark.writers import BatchWriter

        if overwrite:
            raise OptionError("records cannot be overwritten: write with mode('append')")
        return BatchWriter(parse_sink_options(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Output mode complete comes as `overwrite`; each result then follows the one before, as in Spark's sink."""
        from runnel.spark.sink_options import parse_sink_options
        from runnel.spark.writers import StreamWriter

        writer = StreamWriter(parse_sink_options(self.options, schema))
        settle("planning")  # Spark asks for a writer at every trigger
        return writer
