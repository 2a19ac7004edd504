"""Elections and moves of replicas, in clusters of one and of several brokers."""

from __future__ import annotations

from uuid import UUID

import pytest
from metadata_cluster import DIRECTORY, Cluster

from runnel.core.metadata import (
    AlterPartitionReassignments,
    CreateTopics,
    ElectLeaders,
    NewTopic,
    PartitionImage,
    PartitionReassignment,
)
from runnel.core.metadata.records import BrokerRegistrationChangeRecord, MetadataRecord, PartitionChangeRecord
from runnel.wire.errors import ErrorCode

PREFERRED, UNCLEAN = 0, 1
FENCED, UNFENCED = 1, -1


class Moves(Cluster):
    """Three brokers; topic t has one partition with the given replicas."""

    def __init__(self, *replicas: int, brokers: int = 3) -> None:
        super().__init__(brokers)
        self.do(CreateTopics([NewTopic("t", assignments=[(0, replicas)])]))

    @property
    def partition(self) -> PartitionImage:
        return self.machine.image.topics["t"].partitions[0]

    @property
    def topic_id(self) -> UUID:
        return self.machine.image.topics["t"].topic_id

    def replay(self, *records: MetadataRecord) -> None:
        self.log += records
        self.machine.replay_all(records)

    def fence(self, broker: int, fenced: int = FENCED) -> None:
        self.replay(BrokerRegistrationChangeRecord(broker, 1, fenced=fenced))

    def change(self, **fields: object) -> None:
        self.replay(PartitionChangeRecord(0, self.topic_id, **fields))  # type: ignore[arg-type]

    def elect(self, kind: int, *partitions: tuple[str, int]) -> list[tuple[str, int, int]]:
        outcomes = self.do(ElectLeaders(kind, partitions or None))
        return [(outcome.topic, outcome.partition, int(outcome.code)) for outcome in outcomes]

    def move(self, *replicas: int | None, factor_may_change: bool = True) -> ErrorCode:
        wanted = None if replicas == (None,) else [number for number in replicas if number is not None]
        command = AlterPartitionReassignments([PartitionReassignment("t", 0, wanted)], factor_may_change)
        (outcome,) = self.do(command)
        return ErrorCode(outcome.code)


# ------------------------------------------------------------------------------------------------ elections


def test_nobody_needs_an_election_on_one_broker() -> None:
    cluster = Moves(1, brokers=1)
    not_needed = [("t", 0, int(ErrorCode.ELECTION_NOT_NEEDED))]
    assert cluster.elect(PREFERRED, ("t", 0)) == not_needed
    assert cluster.elect(UNCLEAN, ("t", 0)) == not_needed
    assert cluster.elect(PREFERRED) == cluster.elect(UNCLEAN) == []


def test_what_is_not_there_cannot_be_led() -> None:
    cluster = Moves(1, brokers=1)
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    asked = (("t", 7), ("t", -1), ("nope", 0), ("", 0))
    assert cluster.elect(PREFERRED, *asked) == [(*name, unknown) for name in asked]
    assert cluster.elect(2, ("t", 0)) == [("t", 0, int(ErrorCode.INVALID_REQUEST))]


def test_the_preferred_leader_is_elected_back() -> None:
    cluster = Moves(1, 2)
    cluster.change(leader=2)
    assert (cluster.partition.leader, cluster.partition.leader_epoch) == (2, 1)
    assert cluster.elect(UNCLEAN, ("t", 0)) == [("t", 0, int(ErrorCode.ELECTION_NOT_NEEDED))]
    assert cluster.elect(PREFERRED) == [("t", 0, 0)]
    assert (cluster.partition.leader, cluster.partition.leader_epoch, cluster.partition.isr) == (1, 2, (1, 2))


def test_a_preferred_leader_that_is_down_or_behind_is_not_elected() -> None:
    cluster = Moves(1, 2)
    cluster.change(leader=2, isr=(2,))
    refused = [("t", 0, int(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE))]
    assert cluster.elect(PREFERRED, ("t", 0)) == refused
    cluster.change(isr=(1, 2))
    cluster.fence(1)
    assert cluster.elect(PREFERRED) == refused


def test_an_unclean_election_gives_up_what_was_in_sync() -> None:
    cluster = Moves(1, 2)
    cluster.change(leader=-1, isr=(1,))
    cluster.fence(1)
    cluster.fence(2)
    assert cluster.elect(UNCLEAN, ("t", 0)) == [("t", 0, int(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE))]
    cluster.fence(2, UNFENCED)
    assert cluster.elect(UNCLEAN, ("t", 0)) == [("t", 0, 0)]
    partition = cluster.partition
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


def test_an_unclean_election_prefers_a_clean_leader() -> None:
    cluster = Moves(2, 1)
    cluster.change(leader=-1, isr=(1,))
    assert cluster.elect(UNCLEAN, ("t", 0)) == [("t", 0, 0)]
    assert (cluster.partition.leader, cluster.partition.leader_recovery_state) == (1, 0)


# ------------------------------------------------------------------------------------------------ reassignments


def test_the_same_replicas_are_no_move() -> None:
    cluster = Moves(1, brokers=1)
    before = list(cluster.log)
    assert cluster.move(1) == cluster.move(1, factor_may_change=False) == ErrorCode.NONE
    assert cluster.log == before


def test_another_order_is_another_preferred_leader() -> None:
    cluster = Moves(1, 2)
    assert cluster.move(2, 1) == ErrorCode.NONE
    partition = cluster.partition
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ((2, 1), 1, 0)
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
    assert cluster.elect(PREFERRED) == [("t", 0, 0)]


def test_a_move_begins_and_ends_when_all_are_in_sync() -> None:
    cluster = Moves(1, 2)
    assert cluster.move(3, 2) == ErrorCode.NONE
    partition = cluster.partition
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((3, 2, 1), (3,), (1,))
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, (1, 2))
    assert partition.directories == (DIRECTORY, DIRECTORY, DIRECTORY)
    cluster.change(isr=(1, 2, 3))
    assert cluster.move(3, 2) == ErrorCode.NONE  # asked again, it is done
    partition = cluster.partition
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((3, 2), (), ())
    assert (partition.leader, partition.leader_epoch, partition.isr) == (3, 1, (2, 3))


def test_a_removed_replica_goes_at_once_and_is_fenced_off() -> None:
    cluster = Moves(1, 2)
    assert cluster.move(1) == ErrorCode.NONE
    partition = cluster.partition
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((1,), (1,), 1, 1)


def test_a_move_is_cancelled() -> None:
    cluster = Moves(1)
    assert cluster.move(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    cluster.move(2, 3)
    assert cluster.move(None) == ErrorCode.NONE
    partition = cluster.partition
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((1,), (), ())
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 1)
    assert cluster.move(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_that_only_the_new_replicas_survived_is_not_cancelled() -> None:
    cluster = Moves(1)
    cluster.move(2, 3)
    cluster.change(isr=(2,), leader=2)
    assert cluster.move(None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("replicas", [(7,), (1, 7), (), (1, 1), (-1,)])
def test_replicas_must_be_brokers(replicas: tuple[int, ...]) -> None:
    assert Moves(1).move(*replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_replication_factor_may_be_held_fast() -> None:
    cluster = Moves(1)
    assert cluster.move(1, 2, factor_may_change=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.move(2, factor_may_change=False) == ErrorCode.NONE


def test_each_partition_stands_for_itself() -> None:
    cluster = Moves(1)
    wanted = [("t", 0, (2,)), ("t", 7, (2,)), ("nope", 0, None), ("t", 0, (3,))]
    outcomes = cluster.do(AlterPartitionReassignments([PartitionReassignment(*item) for item in wanted]))
    assert [int(outcome.code) for outcome in outcomes] == [0, 3, 3, int(ErrorCode.INVALID_REQUEST)]
    assert cluster.partition.adding_replicas == (2,)
