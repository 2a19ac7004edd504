"""Offsets of consumer groups: who may commit and read them in which epoch, what outlives the group, what expires."""

from __future__ import annotations

import pytest
from consumer_cluster import Cluster, Consumer, settle

from runnel.core.groups import Commit, ConsumerLimits, NewOffset
from runnel.wire.errors import ErrorCode, Refusal

DAY_MS = 24 * 3_600_000
NONE, STALE, UNKNOWN = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.set_topic("t", 3)
    return made


def commit(
    cluster: Cluster, member_id: str, epoch: int, *partitions: int, knows_epochs: bool = True
) -> list[ErrorCode]:
    topic_id = cluster.topics["t"].topic_id
    offsets = [NewOffset("t", partition, 5, topic_id=topic_id) for partition in partitions or (0,)]
    codes: list[ErrorCode] = cluster.carry_out(
        cluster.machine.commit(Commit("g", epoch, member_id, None, offsets, knows_epochs=knows_epochs), cluster.now_ms)
    )
    return codes


def test_members_commit_in_their_epoch(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    assert commit(cluster, "a", member.epoch) == [NONE]
    assert commit(cluster, "a", member.epoch + 1) == [STALE]
    assert commit(cluster, "a", member.epoch - 1) == [STALE]
    assert commit(cluster, "b", member.epoch) == [UNKNOWN]
    assert commit(cluster, "", -1) == [UNKNOWN], "the group has members"
    assert commit(cluster, "a", member.epoch, knows_epochs=False) == [ErrorCode.UNSUPPORTED_VERSION]
    member.leave()
    assert commit(cluster, "", -1) == [NONE]


def test_an_earlier_epoch_will_do_for_what_the_member_has_had_since(cluster: Cluster) -> None:
    """KIP-1251: an answer that is under way moves the epoch, not what the member works on."""
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    first.beat()
    assert commit(cluster, "a", 2, 0, 1, 2) == [NONE] * 3, "also what it has to give up"
    settle(first, second)
    assert first.epoch == 3
    assert commit(cluster, "a", 2, 0, 1) == [NONE, NONE]
    assert commit(cluster, "a", 1, 0, 1) == [STALE, STALE]
    assert commit(cluster, "a", 2, 0, 2) == [STALE, STALE], "one that it gave up spoils the lot"
    assert commit(cluster, "b", 2, 2) == [STALE], "it has had it since 3"


def test_offsets_are_read_in_the_members_epoch(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    check = cluster.machine.check_fetch
    check("g", "a", member.epoch)
    check("g", None, -1)
    check("nowhere", "a", 7)
    for member_id, epoch, code in (("a", 1, STALE), ("a", 9, STALE), ("b", 2, UNKNOWN), ("", -1, UNKNOWN)):
        with pytest.raises(Refusal) as caught:
            check("g", member_id, epoch)
        assert caught.value.code is code


def test_offsets_outlive_members_and_restarts(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    commit(cluster, "a", member.epoch, 0, 1)
    member.leave()
    cluster.restart()
    assert cluster.committed() == {("t", 0): 5, ("t", 1): 5}
    assert cluster.state() == "Empty"


def test_deleting_a_group(cluster: Cluster) -> None:
    member = Consumer(cluster, "a", regex="t").join()
    commit(cluster, "a", member.epoch)
    assert cluster.carry_out(cluster.machine.delete("g")) is ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert cluster.carry_out(cluster.machine.delete("g")) is NONE
    assert cluster.carry_out(cluster.machine.delete("g")) is ErrorCode.GROUP_ID_NOT_FOUND
    cluster.restart()
    assert (cluster.machine.groups, cluster.committed()) == ({}, {})


def test_offsets_age_by_their_own_time_and_not_while_they_are_read() -> None:
    cluster = Cluster(consumer=ConsumerLimits(session_timeout_ms=DAY_MS))
    cluster.set_topic("t", 3)
    member = Consumer(cluster, "a").join()
    cluster.carry_out(
        cluster.machine.commit(
            Commit("g", member.epoch, "a", None, [NewOffset("t", 0, 1), NewOffset("idle", 0, 1)]), cluster.now_ms
        )
    )
    for _ in range(16):
        cluster.advance(DAY_MS // 2)
        member.beat()
    assert cluster.committed() == {("t", 0): 1}
    member.leave()
    cluster.advance(20 * 60_000)
    assert cluster.machine.groups == {}, "the offset is old enough already, and nobody reads it"


def test_groups_are_listed_by_type(cluster: Cluster) -> None:
    Consumer(cluster, "a").join()
    cluster.commit(NewOffset("t", 0, 1), group_id="simple")
    rows = {row.group_id: (row.group_type, row.state, row.protocol_type) for row in cluster.machine.listing()}
    assert rows == {"g": ("consumer", "Stable", "consumer"), "simple": ("classic", "Empty", "")}
    assert [row.group_id for row in cluster.machine.listing(types={"consumer"})] == ["g"]
    assert [row.group_id for row in cluster.machine.listing({"stable"}, {"classic"})] == []
    for group_id, describe in (("g", cluster.machine.describe), ("simple", cluster.machine.describe_consumer)):
        with pytest.raises(Refusal, match="is not a"):
            describe(group_id)
