"""The same batches go to Apache Kafka and to Runnel, both compact, and the same records are left; Kafka's own tools and
consumers read what Runnel compacted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from clients.compacted import (
    BASE_MS,
    SEGMENT_MS,
    SETTINGS,
    Kept,
    Pair,
    batches,
    make_topic,
    put,
    roll,
    wait_for_cleaner,
)
from clients.protocol.calls import INCREMENTAL_ALTER_CONFIGS
from harness.kafka import running_small_kafka
from harness.process import BrokerProcess
from harness.raw import RawConnection
from java_tools import run_java
from runnel.wire.batch import DELETE_HORIZON_BIT, BatchHeader

pytestmark = pytest.mark.java

TOPIC = "both"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCERS = (1001, 1002)


class Side(NamedTuple):
    raw: RawConnection
    data_dir: Path


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Runnel, and Kafka with the same settings."""
    folder = tmp_path_factory.mktemp("both")
    settings = {name: str(value) for name, value in SETTINGS.items()}
    runnel = BrokerProcess(folder / "runnel", settings=SETTINGS).start()
    try:
        with (
            running_small_kafka(folder / "kafka", settings) as kafka,
            RawConnection(kafka.bootstrap) as theirs,
            RawConnection(runnel.address) as ours,
        ):
            yield Side(ours, runnel.data_dir), Side(theirs, folder / "kafka" / "data")
    finally:
        runnel.stop()


class Script:
    """Random batches, the same for both: several codecs, two idempotent producers, tombstones, segments that roll."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._sequences = dict.fromkeys(PRODUCERS, 0)
        self._first_key = 0
        self.time_ms = BASE_MS

    def play(self, sides: tuple[Side, Side], count: int) -> int:
        """The offset up to which both may clean. Each time some keys are written no more."""
        self._first_key += 25
        for _ in range(count):
            pairs = [self._pair() for _ in range(self._random.randint(1, 12))]
            options = {"compression": self._random.choice([0, 0, 1, 2, 3, 4])}
            producer = self._random.choice([-1, -1, *PRODUCERS])
            if producer >= 0:
                options |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": self._sequences[producer]}
                self._sequences[producer] += len(pairs)
            self.time_ms += self._random.randint(0, SEGMENT_MS // 4)
            assert len({put(side.raw, TOPIC, pairs, self.time_ms, **options) for side in sides}) == 1
        ends = {roll(side.raw, TOPIC, self.time_ms) for side in sides}
        self.time_ms += 4 * SEGMENT_MS
        (end,) = ends
        return end

    def _pair(self) -> Pair:
        value = (
            None if self._random.random() < 0.15 else self._random.randbytes(self._random.randint(0, 40)).hex().encode()
        )
        return b"key-%d" % (self._first_key + self._random.randrange(60)), value


def described(headers: list[BatchHeader]) -> list[tuple[object, ...]]:
    """What two compacted logs have in common, batch by batch. Batches without records are left out: Kafka keeps the
    last header of a round, Runnel of each new segment. So is the base timestamp: Kafka moves it with the records."""
    return [
        (
            header.base_offset,
            header.last_offset,
            header.record_count,
            header.attributes & ~DELETE_HORIZON_BIT,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.delete_horizon_ms is not None,
        )
        for header in headers
        if header.record_count
    ]


def clean_once(side: Side, end: int) -> None:
    """One round on each side, no more: how often a tombstone was met decides when it goes."""
    set_dirty_ratio(side, "0")
    wait_for_cleaner(side.data_dir, TOPIC, end)
    set_dirty_ratio(side, "1")


def set_dirty_ratio(side: Side, value: str) -> None:
    row = {"name": "min.cleanable.dirty.ratio", "config_operation": 0, "value": value}
    resource = {"resource_type": 2, "resource_name": TOPIC, "configs": [row]}
    reply = side.raw.request(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    assert reply.responses[0].error_code == 0, reply


def test_the_same_records_are_left(both: tuple[Side, Side]) -> None:
    for side in both:
        make_topic(side.raw, TOPIC, delete_retention_ms=1, min_cleanable_dirty_ratio=1)
    script = Script(7)
    kept: list[Kept] = []
    for _ in range(3):
        end = script.play(both, 80)
        for side in both:
            clean_once(side, end)
        (our_headers, ours), (their_headers, theirs) = (batches(side.raw, TOPIC) for side in both)
        assert ours == theirs
        assert described(our_headers) == described(their_headers)
        assert len(ours) < end / 2, "something was compacted"
        kept = ours
    # In the round after a tombstone was met it goes, and its key with it.
    gone = {b"key-%d" % number for number in range(25, 50)} - {each.key for each in kept}
    assert 0 < len(gone) < 25
    assert [each for each in kept if each.value is None], "younger tombstones are still there"


def test_kafka_dumps_our_compacted_segments(both: tuple[Side, Side]) -> None:
    folder = both[0].data_dir / f"{TOPIC}-0"
    headers, kept = batches(both[0].raw, TOPIC)
    logs = sorted(folder.glob("*.log"))
    done = run_java(DUMP, "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, logs)))
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("baseOffset:")]
    assert len(rows) == len(headers)
    assert all("isvalid: true" in row for row in rows)
    assert [f"lastOffset: {header.last_offset} " in row for header, row in zip(headers, rows, strict=True)].count(
        False
    ) == 0
    horizons = [f"deleteHorizonMs: OptionalLong[{h.base_timestamp}]" for h in headers if h.delete_horizon_ms]
    assert horizons
    assert all(any(horizon in row for row in rows) for horizon in horizons)
    assert done.stdout.count("| offset:") == len(kept)
    indexes = [path.with_suffix(suffix) for path in logs[:-1] for suffix in (".index", ".timeindex")]
    checked = run_java(DUMP, "--files", ",".join(map(str, indexes)))
    complaints = [line for line in checked.stdout.splitlines() if "Mismatch" in line or "Found" in line]
    assert (checked.returncode, complaints) == (0, [])
    sane = run_java(DUMP, "--index-sanity-check", "--files", ",".join(map(str, indexes)))
    assert sane.stdout.count("passed sanity check") == len(indexes)


def test_kafkas_consumer_reads_our_compacted_log(both: tuple[Side, Side]) -> None:
    _, kept = batches(both[0].raw, TOPIC)
    host, port = both[0].raw.socket.getpeername()
    arguments = ["--bootstrap-server", f"{host}:{port}", "--topic", TOPIC, "--partition", "0", "--offset", "earliest"]
    shown = ["--formatter-property", "print.offset=true", "--formatter-property", "print.key=true"]
    ends = ["--max-messages", str(len(kept)), "--timeout-ms", "60000"]
    done = run_java(CONSUMER, *arguments, *shown, *ends)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.split("\n") if line.startswith("Offset:")]
    assert [line.split("\t")[:2] for line in lines] == [
        [f"Offset:{each.offset}", (each.key or b"").decode()] for each in kept
    ]
