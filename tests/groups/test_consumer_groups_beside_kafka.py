"""Consumer groups beside Apache Kafka 4.3: the same requests to both, and the answers compared line by line; and the
records that Kafka writes, read by us and written again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.kafka_jars import KafkaUnavailable
from benchmarks.peers import Kafka, RunningBroker, free_port

from groups.consumer_scenarios import SCENARIOS, Script
from harness.conditions import wait_until
from harness.process import BrokerProcess, watched
from harness.raw import RawConnection
from runnel.core.groups import decode_record, encode_record
from runnel.core.groups.records import Unread
from runnel.wire.batch import decode_records, iterate_headers

pytestmark = pytest.mark.java

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
GROUP_NOT_READY = (14, 15, 16)


class _SmallKafka(Kafka):
    heap = ("-Xmx384M", "-XX:TieredStopAtLevel=1")

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._write_properties(folder, free_port(), free_port())
        properties = folder / "server.properties"
        with properties.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in SETTINGS.items())
        self._run(
            "kafka.tools.StorageTool", "format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties)
        )


@pytest.fixture(scope="module")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="module")
def kafka(kafka_folder: Path) -> Iterator[RunningBroker]:
    try:
        peer = _SmallKafka()
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    peer.prepare(kafka_folder)
    with peer.start(kafka_folder) as broker:
        broker.wait_until_answering()
        yield broker


@pytest.fixture(scope="module")
def scripts(kafka: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Script, Script]]:
    """Kafka's and ours, each with topics t (3 partitions) and u (4)."""
    ours = BrokerProcess(tmp_path_factory.mktemp("runnel"), settings=SETTINGS)
    with watched(ours), RawConnection(kafka.bootstrap) as theirs, RawConnection(ours.address) as own:
        made = Script(theirs), Script(own)
        for script in made:
            wait_until(lambda script=script: _is_ready(script.connection), "a group coordinator")
            script.create("t", 3)
            script.create("u", 4)
        yield made


def _is_ready(connection: RawConnection) -> bool:
    connection.request(10, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    code = connection.request(12, 4, {"group_id": "g", "generation_id": 1, "member_id": "x"}).error_code
    return code not in GROUP_NOT_READY


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_same_answers(scripts: tuple[Script, Script], scenario: Callable[[Script], None]) -> None:
    for script in scripts:
        script.lines.clear()
        scenario(script)
    theirs, ours = (script.lines for script in scripts)
    assert ours == theirs


def test_kafkas_records_are_read_and_written_as_they_are(scripts: tuple[Script, Script], kafka_folder: Path) -> None:
    """After the scenarios: every record of Kafka's own log, decoded and encoded again, is the same bytes."""
    (log,) = kafka_folder.glob("data/__consumer_offsets-0/*.log")
    data = log.read_bytes()
    kinds = set()
    for position, header in iterate_headers(data):
        for row in [] if header.is_control else decode_records(data, position):
            record = decode_record(row.key, row.value)
            if not isinstance(record, Unread):  # tombstones of key 4, which Kafka no longer writes
                kinds.add(type(record).__name__)
                assert encode_record(record) == (row.key, row.value)
    assert kinds >= {"MemberSaved", "EpochSaved", "TargetSaved", "TargetEpochSaved", "CurrentSaved", "Removed"}
