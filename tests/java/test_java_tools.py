"""kafka-dump-log over what a broker left. The other tools are on the compatibility card (tests/compat/tools.py)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from harness.batches import encode_batch
from harness.process import BrokerProcess
from harness.raw import RawConnection
from harness.topics import create_topic
from java.jars import Java

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools"


def produce(bootstrap: str, topic: str, values: list[bytes | None], **options: str) -> None:
    with RawConnection(bootstrap) as connection:
        partitions = [{"index": 0, "records": encode_batch(values, **options)}]
        body = {"acks": -1, "timeout": 30_000, "topic_data": [{"name": topic, "partition_data": partitions}]}
        assert connection.request(0, 9, body).responses[0].partition_responses[0].error_code == 0


def test_dump_log(java: Java, start_broker: Callable[..., BrokerProcess]) -> None:
    """Apache Kafka's dumper reads our segments and both indexes, and finds nothing to complain about."""
    broker = start_broker()
    create_topic(broker.address, "t", configs={"segment.bytes": "1048576", "index.interval.bytes": "4096"})
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    noise = random.Random(7)
    for number in range(50):
        values: list[bytes | None] = [noise.randbytes(7000) + b"." * 1000 for _ in range(10)]
        produce(broker.address, "t", values, compression=codecs[number % 5])
    assert broker.terminate() == 0
    files = sorted((broker.data_dir / "t-0").glob("0*"))
    kinds = Counter(path.suffix for path in files)
    assert kinds[".log"] == kinds[".index"] == kinds[".timeindex"] >= 3
    wanted = [path for path in files if path.suffix in (".log", ".index", ".timeindex", ".snapshot")]
    arguments = ("--deep-iteration", "--files", ",".join(str(path) for path in wanted))
    said = java.run(f"{TOOLS}.DumpLogSegments", *arguments).check()
    assert said.count("| offset:") == 500
    assert said.count("isvalid: true") == 50
    for codec in codecs:
        assert said.count(f"compresscodec: {codec} ") == 10
    for complaint in ("isvalid: false", "Mismatches", "mismatch", "corrupt", "Could not", "Exception"):
        assert complaint not in said, said
