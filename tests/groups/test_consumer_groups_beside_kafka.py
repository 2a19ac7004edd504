"""Consumer groups beside Apache Kafka 4.3: the same requests to both, and the answers compared line by line; and the
records that Kafka writes, read by us and written again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from benchmarks.peers import RunningBroker

from groups.consumer_scenarios import SCENARIOS, Script
from harness.conditions import wait_until
from harness.kafka import running_small_kafka
from harness.process import BrokerProcess, watched
from harness.raw import RawConnection
from runnel.core.groups import GroupMachine, decode_record, encode_record
from runnel.core.groups.records import Partitions, Unread
from runnel.wire.batch import decode_records, iterate_headers

pytestmark = pytest.mark.java

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
GROUP_NOT_READY = (14, 15, 16)


@pytest.fixture(scope="module")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="module")
def kafka(kafka_folder: Path) -> Iterator[RunningBroker]:
    with running_small_kafka(kafka_folder, SETTINGS) as broker:
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
    rows = _kafkas_records(kafka_folder)
    records = [decode_record(*row) for row in rows]
    kinds = {type(record).__name__ for record in records}
    assert kinds >= {"MemberSaved", "EpochSaved", "TargetSaved", "TargetEpochSaved", "CurrentSaved", "Removed"}
    for row, record in zip(rows, records, strict=True):
        if not isinstance(record, Unread):  # tombstones of key 4, which Kafka no longer writes
            assert encode_record(record) == row


def test_kafkas_log_gives_the_groups_that_kafka_has(scripts: tuple[Script, Script], kafka_folder: Path) -> None:
    """Our machine on Kafka's log: the same groups, members, epochs and partitions as Kafka describes itself."""
    connection = scripts[0].connection
    listed = {row.group_id: row.group_type for row in connection.request(16, 5, {}).groups}
    machine = GroupMachine()
    machine.load(decode_record(*row) for row in _kafkas_records(kafka_folder))
    machine.loaded(0)
    assert {row.group_id: row.group_type for row in machine.listing()} == listed
    names = [group_id for group_id, kind in listed.items() if kind == "consumer"]
    assert len(names) > 3
    for row in connection.request(69, 1, {"group_ids": names}).groups:
        ours = machine.describe_consumer(row.group_id)
        assert (ours.state, ours.epoch, ours.target_epoch) == (row.group_state, row.group_epoch, row.assignment_epoch)
        assert {member.member.member_id: (member.epoch, _sizes(member.target)) for member in ours.members} == {
            member.member_id: (
                member.member_epoch,
                sorted((part.topic_id, len(part.partitions)) for part in member.target_assignment.topic_partitions),
            )
            for member in row.members
        }


def _sizes(partitions: Partitions) -> list[tuple[UUID, int]]:
    return sorted((topic_id, len(numbers)) for topic_id, numbers in partitions.items())


def _kafkas_records(folder: Path) -> list[tuple[bytes | None, bytes | None]]:
    (log,) = folder.glob("data/__consumer_offsets-0/*.log")
    data = log.read_bytes()
    positions = [position for position, header in iterate_headers(data) if not header.is_control]
    return [(row.key, row.value) for position in positions for row in decode_records(data, position)]
