"""Where the project's definitions get their records from, and the settings that say where.

Settings (the spec's `configuration`, or any other way to set Spark's): `spark.shop.bootstrap`, `spark.shop.lake`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runnel.examples.shop.rules import INPUTS, WATERMARK_MINUTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOOTSTRAP_SETTING, BOOTSTRAP_DEFAULT = "spark.shop.bootstrap", "127.0.0.1:9092"
LAKE_SETTING = "spark.shop.lake"
GROUP = "shop-pipeline"


def bootstrap_servers(spark: SparkSession) -> str:
    return spark.conf.get(BOOTSTRAP_SETTING, None) or BOOTSTRAP_DEFAULT


def lake_folder(spark: SparkSession) -> str:
    """Beside the project, unless the settings name another place."""
    return spark.conf.get(LAKE_SETTING, None) or str(Path.cwd().parent / "lake")


def read_topics(spark: SparkSession) -> DataFrame:
    """A stream of all records of the shop's topics; its progress is that of a consumer group, for lag tools to see."""
    source = spark.readStream.format("runnel").option("subscribe", ",".join(INPUTS))
    source = source.option("kafka.bootstrap.servers", bootstrap_servers(spark)).option("kafka.group.id", GROUP)
    return source.option("startingOffsets", "earliest").load()


def read_table(spark: SparkSession, table: str, time_column: str | None = None) -> DataFrame:
    """A stream of the rows of one of the pipeline's tables, with a watermark if a column is named.

    By SQL: `withWatermark` asks Spark's server about its table, and while a pipeline is defined there is none yet.
    """
    watermark = f" WATERMARK {time_column} DELAY OF INTERVAL {WATERMARK_MINUTES} MINUTES" if time_column else ""
    return spark.sql(f"SELECT * FROM STREAM {table}{watermark}")
