"""One Spark session for all tests that need one, with Spark's own Kafka connector in it where Maven has brought it.

A JVM takes long to start and longer to warm up, so there is one for the whole run; tests keep apart by topics, query
names and checkpoint folders.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from java_tools import REPOSITORY  # puts the repository on the path, for `benchmarks`

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

HEAP = "1g"
QUERY_S = 120
__all__ = ["REPOSITORY"]


@pytest.fixture(scope="session", autouse=True)
def nothing_kept() -> Iterator[None]:
    """Tasks that ran in this process have left their connections to the next one, and there is no next."""
    from runnel.spark.brokers import kept

    yield
    while kept._idle:
        kept._idle.popitem()[1].close()


@pytest.fixture(scope="session")
def connector_jars() -> str | None:
    """Spark's own connector as `spark.jars` takes it, or None where it cannot be had."""
    from benchmarks.kafka_jars import KafkaUnavailable, connector_libs

    try:
        return ",".join(str(jar) for jar in sorted(connector_libs().glob("*.jar")))
    except KafkaUnavailable:
        return None


@pytest.fixture(scope="session")
def spark(connector_jars: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from runnel.spark import session

    there = SparkSession.getActiveSession()
    if there is not None:  # `tests/examples` has this fixture too, and made it first
        yield there
        return
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.memory": HEAP,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        **({"spark.jars": connector_jars} if connector_jars else {}),
    }
    made = session("local[2]", "runnel-tests", **settings)
    yield made
    made.stop()


@pytest.fixture
def official(spark: SparkSession, connector_jars: str | None) -> str:
    """The format name of Spark's own connector; skips where it is not there."""
    if connector_jars is None:
        pytest.skip(
            "Spark's own Kafka connector is not in the cache: needs Maven once (python -m benchmarks.kafka_jars)"
        )
    return "kafka"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 that signs itself, in one PEM file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    key, made, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + made.read_text())
    return both


@pytest.fixture
def load(spark: SparkSession, bootstrap: str) -> Callable[..., DataFrame]:
    """A topic as a DataFrame, through either connector."""

    def make(format_name: str = "runnel", **options: str) -> DataFrame:
        reader = spark.read.format(format_name).option("kafka.bootstrap.servers", bootstrap)
        return reader.options(**options).load()

    return make


@pytest.fixture
def run_stream(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Callable[..., Any]:
    """Runs a streaming query over all that is there, and answers it when it is done."""

    def run(checkpoint: str, collect: Callable[[DataFrame], None], format_name: str = "runnel", **options: str) -> Any:
        stream = spark.readStream.format(format_name).option("kafka.bootstrap.servers", bootstrap)
        query = (
            stream.options(**options)
            .load()
            .writeStream.foreachBatch(lambda batch, _: collect(batch))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(QUERY_S), "the query has not ended"
        return query

    return run
