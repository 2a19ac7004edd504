"""ConsumerGroupHeartbeat, one scenario per rule: joining, epochs, fencing, giving up before getting, leaving."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from consumer_cluster import Cluster, Consumer, settle

from runnel.core.groups import ConsumerLimits
from runnel.core.groups.records import CurrentSaved, MemberState
from runnel.wire.errors import ErrorCode


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.set_topic("t", 3)
    return made


def state_of(cluster: Cluster, member_id: str) -> tuple[int, MemberState]:
    saved = [r for r in cluster.records() if isinstance(r, CurrentSaved) and r.member_id == member_id]
    return saved[-1].epoch, saved[-1].state


# ------------------------------------------------------------------------------------------ joining


def test_the_first_member_gets_everything_at_once(cluster: Cluster) -> None:
    reply = cluster.beat("a")
    topic_id = cluster.topics["t"].topic_id
    assert (reply.code, reply.member_id, reply.epoch) == (ErrorCode.NONE, "a", 2)
    assert (reply.heartbeat_interval_ms, reply.assignment) == (5_000, {topic_id: [0, 1, 2]})
    described = cluster.describe()
    assert (described.state, described.epoch, described.target_epoch) == ("Stable", 2, 2)
    assert described.assignor == "uniform"


def test_a_member_without_an_id_gets_one_in_version_0(cluster: Cluster) -> None:
    reply = cluster.beat("", new_member_id="made", client_names_members=False)
    assert (reply.code, reply.member_id) == (ErrorCode.NONE, "made")
    assert cluster.beat("", new_member_id="made").message == "MemberId can't be empty."
    leaving = cluster.beat("", -2, group_id="nowhere", instance_id="i", client_names_members=False)
    assert leaving.code is ErrorCode.GROUP_ID_NOT_FOUND, "version 0 looks at the instance then"
    assert cluster.beat("", -1, client_names_members=False).message == "MemberId can't be empty."


REFUSED: list[tuple[dict[str, Any], ErrorCode, str]] = [
    ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
    ({"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
    ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
    ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
    ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided"),
    ({"owned": None}, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty"),
    ({"owned": {UUID(int=1): []}}, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty"),
    ({"topics": None}, ErrorCode.INVALID_REQUEST, "Either SubscribedTopicNames or SubscribedTopicRegex"),
    ({"epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
    ({"epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
    ({"assignor": "x"}, ErrorCode.UNSUPPORTED_ASSIGNOR, "Supported assignors: uniform, range."),
    ({"client_id": "x" * 8001}, ErrorCode.INVALID_REQUEST, "longer than 8000"),
    ({"topics": ["x" * 1_000_001]}, ErrorCode.INVALID_REQUEST, "more than 1000000 characters"),
    ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found."),
    ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
]


@pytest.mark.parametrize(("options", "code", "words"), REFUSED)
def test_a_refused_request_leaves_nothing(
    cluster: Cluster, options: dict[str, Any], code: ErrorCode, words: str
) -> None:
    reply = cluster.beat(**{"member_id": "a", **options})
    assert reply.code is code
    assert words in (reply.message or "")
    assert cluster.machine.groups == {}
    assert cluster.log == []


def test_a_member_that_reads_nothing_is_a_member(cluster: Cluster) -> None:
    assert cluster.beat("a", topics=[]).epoch == 1
    assert cluster.describe().state == "Stable"
    cluster.restart()
    assert cluster.beat("a", 1).code is ErrorCode.NONE


def test_a_full_group_takes_no_more() -> None:
    cluster = Cluster(consumer=ConsumerLimits(members_max=2))
    cluster.set_topic("t", 3)
    first = cluster.beat("a")
    cluster.beat("b")
    refused = cluster.beat("c")
    assert refused.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "maximum capacity of 2" in (refused.message or "")
    assert cluster.beat("a", first.epoch).code is ErrorCode.NONE


# ------------------------------------------------------------------------------------------ epochs


def test_a_heartbeat_with_nothing_new_logs_nothing(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    logged = len(cluster.log)
    reply = cluster.beat("a", member.epoch)
    assert (reply.epoch, reply.assignment) == (member.epoch, None)
    member.beat()
    assert len(cluster.log) == logged


def test_a_full_request_is_told_everything(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    logged = len(cluster.log)
    reply = cluster.beat("a", member.epoch, owned={}, topics=["t"], rebalance_timeout_ms=30_000)
    assert reply.assignment == member.told
    assert len(cluster.log) == logged


def test_other_epochs_are_fenced(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    greater = cluster.beat("a", member.epoch + 1)
    assert greater.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch (3)" in (greater.message or "")
    assert "smaller" in (cluster.beat("a", 1).message or "")
    assert cluster.beat("b", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.beat("a", member.epoch).code is ErrorCode.NONE, "nothing happened to it"


def test_a_member_whose_answer_was_lost_goes_on(cluster: Cluster) -> None:
    first = Consumer(cluster, "a").join()
    Consumer(cluster, "b").join()
    first.beat()
    given_up, epoch = first.owned, first.epoch
    topic_id = cluster.topics["t"].topic_id
    assert cluster.beat("a", epoch, owned=given_up).epoch == epoch + 1  # and this answer is lost
    again = cluster.beat("a", epoch, owned=given_up)
    assert (again.code, again.epoch) == (ErrorCode.NONE, epoch + 1)
    assert cluster.beat("a", epoch).code is ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it has"
    with_more = cluster.beat("a", epoch, owned={topic_id: [0, 1, 2]})
    assert with_more.code is ErrorCode.FENCED_MEMBER_EPOCH, "it has what it must not have"


def test_a_member_that_joins_again_keeps_its_place(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    logged = len(cluster.log)
    assert (cluster.beat("a").epoch, len(cluster.log)) == (member.epoch, logged)


# ------------------------------------------------------------------------------------------ reconciliation


def test_nobody_gets_what_another_has_not_given_up(cluster: Cluster) -> None:
    first = Consumer(cluster, "a").join()
    second = Consumer(cluster, "b").join()
    assert (first.partitions, second.partitions) == ([0, 1, 2], [])
    assert state_of(cluster, "b") == (3, MemberState.UNRELEASED)
    topic_id = cluster.topics["t"].topic_id
    told = cluster.beat("a", first.epoch)
    assert (told.epoch, told.assignment) == (2, {topic_id: [0, 1]})
    assert state_of(cluster, "a") == (2, MemberState.UNREVOKED)
    assert cluster.held() == {"a": [0, 1, 2], "b": []}
    assert cluster.beat("b", 3).assignment is None
    assert cluster.beat("a", 2).assignment is None, "it does not say what it has"
    assert cluster.beat("a", 2, owned={topic_id: [0, 1, 2]}).assignment is None, "it has not given it up"
    done = cluster.beat("a", 2, owned={topic_id: [0, 1]})
    assert (done.epoch, done.assignment) == (3, None)
    assert cluster.beat("b", 3).assignment == {topic_id: [2]}
    assert (cluster.describe().state, cluster.held()) == ("Stable", {"a": [0, 1], "b": [2]})


def test_waiting_for_partitions_logs_nothing(cluster: Cluster) -> None:
    Consumer(cluster, "a").join()
    waiting = Consumer(cluster, "b").join()
    logged = len(cluster.log)
    waiting.beat()
    assert len(cluster.log) == logged


def test_a_late_request_does_not_pass_for_a_revocation(cluster: Cluster) -> None:
    """The request was sent before the member had what it is told to give up now."""
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    settle(first, second)
    late_epoch, late_owned = second.epoch, second.owned  # epoch 3, one partition
    first.leave()
    settle(second)
    assert second.partitions == [0, 1, 2]
    third = Consumer(cluster, "c").join()
    second_epoch = second.epoch
    cluster.beat("b", second_epoch)
    assert state_of(cluster, "b")[1] is MemberState.UNREVOKED
    assert cluster.beat("b", late_epoch, owned=late_owned).code is ErrorCode.FENCED_MEMBER_EPOCH
    third.beat()
    assert third.partitions == []


def full(cluster: Cluster, member_id: str, epoch: int, owned: dict[UUID, list[int]]) -> Any:
    return cluster.beat(member_id, epoch, owned=owned, topics=["t"], rebalance_timeout_ms=30_000)


def test_what_a_member_has_not_taken_yet_is_not_taken_for_given_up(cluster: Cluster) -> None:
    """librdkafka says everything once more right after it was told, before its application takes the partitions."""
    topic_id = cluster.topics["t"].topic_id
    told = cluster.beat("a")
    other = Consumer(cluster, "b").join()
    reply = full(cluster, "a", told.epoch, {})
    assert (reply.epoch, reply.assignment) == (told.epoch, told.assignment), "it is told again"
    other.beat()
    assert other.partitions == []
    assert cluster.beat("a", told.epoch, owned={topic_id: [0, 1, 2]}).assignment == {topic_id: [0, 1]}
    assert full(cluster, "a", told.epoch, {topic_id: [0, 1]}).epoch == told.epoch + 1, "this one it had, and gave up"
    other.beat()
    assert other.partitions == [2]


def test_a_member_that_never_takes_what_it_was_told_is_out(cluster: Cluster) -> None:
    told = cluster.beat("a")
    other = Consumer(cluster, "b").join()
    for _ in range(4):
        full(cluster, "a", told.epoch, {})
        cluster.advance(10_000)
        other.beat()
    assert (set(cluster.held()), other.partitions) == ({"b"}, [0, 1, 2])


def test_what_cannot_be_taken_any_more_holds_nobody_up(cluster: Cluster) -> None:
    told = cluster.beat("a")
    cluster.delete_topic("t")
    assert full(cluster, "a", told.epoch, {}).epoch == told.epoch + 1


def test_a_target_that_moves_on_is_followed(cluster: Cluster) -> None:
    """A second rebalance while the first one is not done."""
    cluster.set_topic("t", 6)
    first = Consumer(cluster, "a").join()
    second = Consumer(cluster, "b").join()
    first.beat()
    third = Consumer(cluster, "c").join()
    settle(first, second, third)
    assert [len(member.partitions) for member in (first, second, third)] == [2, 2, 2]
    assert sorted(first.partitions + second.partitions + third.partitions) == list(range(6))
    assert cluster.describe().state == "Stable"


def test_states_are_told(cluster: Cluster) -> None:
    states = []
    first = Consumer(cluster, "a").join()
    states.append(cluster.state())
    second = Consumer(cluster, "b").join()
    states.append(cluster.state())
    settle(first, second)
    second.leave()
    states.append(cluster.state())
    first.leave()
    states.append(cluster.state())
    assert states == ["Stable", "Reconciling", "Assigning", "Empty"]


def test_members_choose_the_assignor(cluster: Cluster) -> None:
    Consumer(cluster, "a", assignor="range").join()
    Consumer(cluster, "b").join()
    assert cluster.describe().assignor == "range"
    Consumer(cluster, "c", assignor="uniform").join()
    Consumer(cluster, "d", assignor="uniform").join()
    assert cluster.describe().assignor == "uniform"


# ------------------------------------------------------------------------------------------ time


def test_a_silent_member_is_out_after_its_session(cluster: Cluster) -> None:
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    settle(first, second)
    cluster.advance(44_999)
    first.beat()
    assert set(cluster.held()) == {"a", "b"}
    cluster.advance(1)
    assert set(cluster.held()) == {"a"}
    assert second.beat().code is ErrorCode.UNKNOWN_MEMBER_ID
    first.beat()
    assert first.partitions == [0, 1, 2]


def test_a_member_that_does_not_give_up_in_time_is_out(cluster: Cluster) -> None:
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    cluster.beat("a", first.epoch)
    for _ in range(3):
        cluster.advance(10_000)
        assert cluster.beat("a", first.epoch).code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
        second.beat()
    assert set(cluster.held()) == {"b"}
    assert second.partitions == [0, 1, 2]


def test_who_gave_up_in_time_stays(cluster: Cluster) -> None:
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    first.beat()
    cluster.advance(29_000)
    settle(first, second)
    cluster.advance(29_000)
    settle(first, second)
    assert set(cluster.held()) == {"a", "b"}


def test_many_members_are_lost_at_once(cluster: Cluster) -> None:
    for number in range(20):
        Consumer(cluster, f"m{number}").join()
    cluster.advance(45_000)
    assert cluster.state() == "Empty"
    cluster.restart()
    assert cluster.state() == "Empty"


def test_a_group_has_settings_of_its_own(cluster: Cluster) -> None:
    cluster.configure("g", consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="7000")
    assert cluster.beat("a").heartbeat_interval_ms == 7_000
    cluster.advance(49_999)
    assert cluster.held() == {"a": [0, 1, 2]}
    cluster.advance(1)
    assert cluster.state() == "Empty"
    cluster.configure("g", consumer_heartbeat_interval_ms="99000")
    assert cluster.beat("a").heartbeat_interval_ms == 15_000, "the broker's limit"


def test_assignments_may_be_held_back() -> None:
    cluster = Cluster(consumer=ConsumerLimits(assignment_interval_ms=1_000))
    cluster.set_topic("t", 3)
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    first.beat()
    assert (cluster.state(), first.partitions) == ("Assigning", [0, 1, 2])
    cluster.advance(1_000)
    settle(first, second)
    assert (cluster.state(), first.partitions, second.partitions) == ("Stable", [0, 1], [2])


# ------------------------------------------------------------------------------------------ leaving, restarts


def test_leaving(cluster: Cluster) -> None:
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    settle(first, second)
    left = second.leave()
    assert (left.code, left.member_id, left.epoch, left.heartbeat_interval_ms) == (ErrorCode.NONE, "b", -1, 0)
    assert cluster.beat("b", -1).code is ErrorCode.UNKNOWN_MEMBER_ID
    first.beat()
    assert first.partitions == [0, 1, 2]


def test_a_restart_in_the_middle_of_a_rebalance_loses_nothing(cluster: Cluster) -> None:
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    first.beat()
    before = cluster.describe()
    cluster.restart()
    assert cluster.describe() == before
    settle(first, second)
    assert (first.partitions, second.partitions) == ([0, 1], [2])


def test_a_restart_renews_deadlines(cluster: Cluster) -> None:
    first = Consumer(cluster, "a").join()
    Consumer(cluster, "b").join()
    cluster.beat("a", first.epoch)
    cluster.advance(29_000)
    cluster.restart()
    cluster.advance(29_000)
    assert set(cluster.held()) == {"a", "b"}
    cluster.advance(1_000)
    assert set(cluster.held()) == {"b"}, "it was told to give something up, and did not"
    cluster.advance(15_000)
    assert cluster.state() == "Empty"


def test_two_hundred_members_share_a_thousand_partitions() -> None:
    cluster = Cluster()
    cluster.set_topic("t", 1_000)
    members = [Consumer(cluster, f"m{number:03}").join() for number in range(200)]
    settle(*members, rounds=3)
    assert {len(member.partitions) for member in members} == {5}
    assert sorted(p for member in members for p in member.partitions) == list(range(1_000))
    for member in members[100:]:
        member.leave()
    settle(*members[:100], rounds=3)
    assert {len(member.partitions) for member in members[:100]} == {10}
