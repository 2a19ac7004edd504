"""Spark looks for data sources in top-level modules named `pyspark_*`: this is why `format("runnel-lake")` is found."""

from runnel.spark.lake.sink import LakeDataSource as DefaultSource

__all__ = ["DefaultSource"]
