"""Joining, syncing, beating, leaving: one scenario per rule of the classic protocol."""

from __future__ import annotations

from typing import Any

import pytest
from group_cluster import RANGE, Coordinator

from runnel.core.groups import JoinReply, Leaving, SyncReply
from runnel.wire.errors import ErrorCode


@pytest.fixture
def groups() -> Coordinator:
    return Coordinator()


def test_the_first_member_leads_generation_1_at_once(groups: Coordinator) -> None:
    joined = groups.join()
    assert (joined.code, joined.generation, joined.leader) == (ErrorCode.NONE, 1, joined.member_id)
    assert (joined.protocol_type, joined.protocol) == ("consumer", "range")
    assert joined.members == [(joined.member_id, None, RANGE[0][1])]
    assert groups.state() == "CompletingRebalance"
    synced = groups.sync(joined, {joined.member_id: b"mine"})
    assert synced == SyncReply(ErrorCode.NONE, b"mine", "consumer", "range")
    assert groups.state() == "Stable"


def test_a_dynamic_member_gets_its_id_first(groups: Coordinator) -> None:
    """KIP-394."""
    asked = groups.join(member_id_required=True)
    assert asked.code is ErrorCode.MEMBER_ID_REQUIRED
    joined = groups.join(asked.member_id, member_id_required=True)
    assert (joined.code, joined.member_id) == (ErrorCode.NONE, asked.member_id)


def test_an_id_that_is_never_used_is_forgotten_and_holds_nobody_up(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    groups.join(member_id_required=True)
    first, _ = groups.start_join(leader.member_id)
    second, reply = groups.start_join(follower.member_id)
    assert reply is None, "a pending member may still join this generation"
    groups.advance(10_000)
    assert groups.answers[first].generation == groups.answers[second].generation == 3


def test_a_second_member_makes_the_first_rejoin(groups: Coordinator) -> None:
    first = groups.join()
    groups.sync(first, {first.member_id: b"all"})
    token, reply = groups.start_join()
    assert reply is None
    assert groups.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    leader = groups.join(first.member_id)
    follower = groups.answers[token]
    assert leader.generation == follower.generation == 2
    assert leader.leader == follower.leader == first.member_id
    assert [row[0] for row in leader.members] == [first.member_id, follower.member_id]
    assert follower.members == ()


def test_followers_wait_for_the_leaders_assignment(groups: Coordinator) -> None:
    first = groups.join()
    token, _ = groups.start_join()
    leader = groups.join(first.member_id)
    follower = groups.answers[token]
    waiting = groups.start_sync(follower)
    assert waiting not in groups.answers
    assert groups.sync(leader, {leader.member_id: b"a", follower.member_id: b"b"}).assignment == b"a"
    assert groups.answers[waiting].assignment == b"b"
    assert groups.sync(follower).assignment == b"b"  # asked again: told again


def test_a_member_without_an_assignment_gets_an_empty_one(groups: Coordinator) -> None:
    joined = groups.join()
    assert groups.sync(joined, {"stranger": b"x"}) == SyncReply(ErrorCode.NONE, b"", "consumer", "range")


def test_whoever_does_not_rejoin_in_time_is_out(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    waiting, reply = groups.start_join(leader.member_id)
    assert reply is None
    for _ in range(6):  # it beats, but does not rejoin: the rebalance timeout is what counts
        groups.advance(9_999)
        assert groups.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    groups.advance(6)
    assert groups.answers[waiting].generation == 3
    assert [row[0] for row in groups.answers[waiting].members] == [leader.member_id]
    assert groups.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_after_its_session(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    groups.advance(9_000)
    assert groups.heartbeat(leader) is ErrorCode.NONE
    groups.advance(1_000)
    assert groups.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.join(leader.member_id).generation == 3
    assert groups.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_in_a_rebalance_is_being_alive(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    waiting, _ = groups.start_join(leader.member_id, rebalance_timeout_ms=300_000)
    groups.advance(9_000)
    groups.heartbeat(follower)
    groups.advance(9_000)  # the leader's own session timeout is long over
    groups.heartbeat(follower)
    assert groups.join(follower.member_id).generation == groups.answers[waiting].generation == 3


def test_whoever_joins_and_does_not_sync_is_out(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    token, _ = groups.start_join(leader.member_id)
    again = groups.join(follower.member_id)
    waiting = groups.start_sync(again)
    for _ in range(7):
        groups.advance(9_000)
        groups.heartbeat(groups.answers[token])
    assert groups.answers[waiting].code is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.heartbeat(groups.answers[token]) is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_starts_a_rebalance_and_the_last_one_empties_the_group(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    left = groups.leave(Leaving(leader.member_id), Leaving("stranger"))
    assert [code for _, code in left.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert groups.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    alone = groups.join(follower.member_id)
    assert (alone.generation, alone.leader) == (3, follower.member_id)
    groups.leave(Leaving(follower.member_id))
    assert groups.state() == "Empty"
    assert groups.join().generation == 5  # being empty was a generation too


def test_a_leader_that_joins_again_forces_a_rebalance_a_follower_does_not(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    assert groups.join(follower.member_id).generation == 2
    assert groups.state() == "Stable"
    assert groups.start_join(leader.member_id)[1] is None
    assert groups.state() == "PreparingRebalance"


def test_a_changed_subscription_forces_a_rebalance(groups: Coordinator) -> None:
    _, follower = groups.stable_pair()
    assert groups.start_join(follower.member_id, protocols=(("range", b"other"),))[1] is None
    assert groups.state() == "PreparingRebalance"


def test_a_join_that_comes_twice_has_one_answer_that_counts(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    lost, _ = groups.start_join(leader.member_id)
    again, _ = groups.start_join(leader.member_id)
    assert groups.answers[lost].code is ErrorCode.REBALANCE_IN_PROGRESS
    groups.join(follower.member_id)
    assert groups.answers[again].generation == 3


def test_the_protocol_with_the_most_votes_wins(groups: Coordinator) -> None:
    one, other = ("a", b"1"), ("b", b"2")
    first = groups.join(protocols=(one, other))
    tokens = [groups.start_join(protocols=(other, one))[0] for _ in range(2)]
    assert groups.join(first.member_id, protocols=(one, other)).protocol == "b"
    assert [groups.answers[token].protocol for token in tokens] == ["b", "b"]


REFUSED_JOINS: list[tuple[dict[str, Any], ErrorCode]] = [
    ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"client_id": "x" * 8001}, ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("options", "code"), REFUSED_JOINS)
def test_a_refused_join_leaves_nothing(groups: Coordinator, options: dict[str, Any], code: ErrorCode) -> None:
    assert groups.join(**options).code is code
    assert groups.machine.groups == {}
    assert groups.log == []


@pytest.mark.parametrize("options", [{"protocol_type": "connect"}, {"protocols": (("sticky", b""),)}])
def test_members_must_understand_each_other(groups: Coordinator, options: dict[str, Any]) -> None:
    groups.join()
    assert groups.join(**options).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_more(groups: Coordinator) -> None:
    groups = Coordinator(members_max=2)
    groups.stable_pair()
    assert groups.join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.state() == "Stable"


def test_requests_of_other_generations_and_strangers_are_refused(groups: Coordinator) -> None:
    leader, _ = groups.stable_pair()
    old = leader._replace(generation=1)
    stranger = leader._replace(member_id="stranger")
    assert groups.heartbeat(old) is ErrorCode.ILLEGAL_GENERATION
    assert groups.heartbeat(stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.sync(old).code is ErrorCode.ILLEGAL_GENERATION
    assert groups.sync(stranger).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.sync(leader, protocol="sticky").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.sync(leader, protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    groups.start_join(leader.member_id)
    assert groups.sync(leader).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_initial_delay_gathers_members_and_has_an_end() -> None:
    groups = Coordinator(initial_delay_ms=3_000)
    tokens = []
    for _ in range(40):  # one joins every 2 s: the rebalance timeout of 60 s bounds the wait
        tokens.append(groups.start_join(session_timeout_ms=300_000)[0])
        groups.advance(2_000)
    generations = [groups.answers[token].generation for token in tokens if token in groups.answers]
    assert set(generations) == {1}
    assert 20 < len(generations) < 40


# ------------------------------------------------------------------------------------------ static members


def static_pair(groups: Coordinator) -> tuple[JoinReply, JoinReply]:
    first = groups.join(instance_id="one")
    token, _ = groups.start_join(instance_id="two")
    leader = groups.join(first.member_id, "one")
    follower: JoinReply = groups.answers[token]
    groups.sync(leader, {leader.member_id: b"a", follower.member_id: b"b"}, instance_id="one")
    assert groups.sync(follower, instance_id="two").assignment == b"b"
    return leader, follower


def test_a_static_member_comes_back_without_a_rebalance(groups: Coordinator) -> None:
    leader, follower = static_pair(groups)
    back = groups.join(instance_id="two")
    assert (back.code, back.generation) == (ErrorCode.NONE, leader.generation)
    assert back.member_id != follower.member_id
    assert groups.state() == "Stable"
    assert groups.sync(back, instance_id="two").assignment == b"b"
    assert groups.heartbeat(follower, "two") is ErrorCode.FENCED_INSTANCE_ID
    assert groups.join(follower.member_id, "two").code is ErrorCode.FENCED_INSTANCE_ID
    assert groups.sync(follower, instance_id="two").code is ErrorCode.FENCED_INSTANCE_ID
    groups.restart()
    assert groups.heartbeat(back, "two") is ErrorCode.NONE


def test_a_static_leader_comes_back_and_does_not_assign(groups: Coordinator) -> None:
    leader, _ = static_pair(groups)
    back = groups.join(instance_id="one")
    assert back.leader == leader.member_id, "an old client must not take itself for the leader"
    newer = groups.join(instance_id="one", skips_assignment=True)
    assert (newer.leader, newer.skip_assignment) == (newer.member_id, True)
    assert len(newer.members) == 2


def test_a_static_member_outlives_its_absence_until_its_session_ends(groups: Coordinator) -> None:
    leader, _ = static_pair(groups)
    groups.advance(9_000)
    groups.heartbeat(leader, "one")
    back = groups.join(instance_id="two")
    groups.advance(9_000)
    assert groups.heartbeat(leader, "one") is ErrorCode.NONE
    groups.advance(1_000)
    assert groups.heartbeat(leader, "one") is ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.heartbeat(back, "two") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_is_removed_by_its_instance_alone(groups: Coordinator) -> None:
    leader, _ = static_pair(groups)
    left = groups.leave(Leaving("", "two"), Leaving("", "three"), Leaving("x", "one"))
    codes = [code for _, code in left.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
    assert groups.heartbeat(leader, "one") is ErrorCode.REBALANCE_IN_PROGRESS


# ------------------------------------------------------------------------------------------ restarts


def test_a_stable_group_goes_on_after_a_restart(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    groups.advance(9_000)
    groups.restart()
    groups.advance(9_000)  # sessions begin anew
    assert groups.heartbeat(leader) is ErrorCode.NONE
    assert groups.sync(leader).assignment == b"a"
    assert groups.state() == "Stable"
    groups.advance(2_000)
    assert groups.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_in_a_rebalance_returns_to_the_last_generation(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    groups.start_join(leader.member_id)
    groups.restart()
    assert groups.heartbeat(follower) is ErrorCode.NONE
    token, _ = groups.start_join(leader.member_id)
    groups.join(follower.member_id)
    assert groups.answers[token].generation == 3


# ------------------------------------------------------------------------------------------ many members


def test_two_hundred_members_come_and_half_of_them_go(groups: Coordinator) -> None:
    first = groups.join()
    tokens = [groups.start_join()[0] for _ in range(199)]
    leader = groups.join(first.member_id)
    everybody = [leader, *(groups.answers[token] for token in tokens)]
    assert {reply.generation for reply in everybody} == {2}
    waiting = [groups.start_sync(reply) for reply in everybody[1:]]
    groups.sync(leader, {row[0]: row[0].encode() for row in leader.members})
    assert [groups.answers[token].assignment.decode() for token in waiting] == [r.member_id for r in everybody[1:]]
    groups.leave(*(Leaving(reply.member_id) for reply in everybody[100:]))
    tokens = [groups.start_join(reply.member_id)[0] for reply in everybody[:100]]
    assert {groups.answers[token].generation for token in tokens} == {3}
    assert len(groups.answers[tokens[0]].members) == 100
