"""Spark looks for data sources in modules named `pyspark_*`: this is why `format("runnel-admin")` is found."""

from runnel.spark.admin import AdminDataSource as DefaultSource

__all__ = ["DefaultSource"]
