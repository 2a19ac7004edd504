"""The Spark session is the one of tests/spark: a JVM for the whole run."""

from __future__ import annotations

from spark.conftest import connector_jars, spark

__all__ = ["connector_jars", "spark"]
