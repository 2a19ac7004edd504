"""Apache Kafka's own log tool reads the batches that we encode, records and all, with every codec."""

from __future__ import annotations

from pathlib import Path

import pytest

from java_tools import run_java
from runnel.wire.batch import encode_batch

RECORDS_PER_BATCH = 30


@pytest.mark.java
def test_dump_log_segments_opens_every_codec(tmp_path: Path) -> None:
    segment = bytearray()
    for codec in range(5):
        records = [
            (1_700_000_000_000 + index, b"key-%d" % index, b"v" * index * 50, [("name", b"x"), ("none", None)])
            for index in range(RECORDS_PER_BATCH)
        ]
        segment += encode_batch(records, base_offset=codec * RECORDS_PER_BATCH, compression=codec, leader_epoch=3)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(segment)
    tool = run_java(
        "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", str(path)
    )
    assert tool.returncode == 0, tool.stderr
    batches = [line for line in tool.stdout.splitlines() if line.startswith("baseOffset")]
    records_shown = [line for line in tool.stdout.splitlines() if line.startswith("| offset")]
    assert len(batches) == 5
    assert all("isvalid: true" in line for line in batches)
    assert len(records_shown) == 5 * RECORDS_PER_BATCH
    assert all(f"key: key-{index % RECORDS_PER_BATCH} " in line for index, line in enumerate(records_shown))
