"""Spark looks for data sources in top-level modules named `pyspark_*`: this one is why `format("runnel")` is found."""

from runnel.spark.source import RunnelDataSource as DefaultSource

__all__ = ["DefaultSource"]
