"""Committed offsets: who may commit, what a restart keeps, when offsets and groups go."""

from __future__ import annotations

import pytest
from group_cluster import Coordinator

from runnel.core.groups import Leaving, NewOffset
from runnel.wire.errors import ErrorCode, Refusal

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def groups() -> Coordinator:
    return Coordinator()


def subscription(*topics: str) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff\0\0\0\0"


def test_a_consumer_without_a_group_protocol_commits_to_an_empty_group(groups: Coordinator) -> None:
    assert groups.commit(NewOffset("t", 0, 5), NewOffset("t", 1, 6)) == [ErrorCode.NONE] * 2
    assert groups.committed() == {("t", 0): 5, ("t", 1): 6}
    assert [(row.group_id, row.protocol_type, row.state) for row in groups.machine.listing()] == [("g", "", "Empty")]


def test_commits_of_members_need_their_generation(groups: Coordinator) -> None:
    offset = NewOffset("t", 0, 5)
    assert groups.commit(offset, joined=groups.join()._replace(generation=7)) == [ErrorCode.ILLEGAL_GENERATION]
    groups = Coordinator()
    leader, follower = groups.stable_pair()
    assert groups.commit(offset, joined=follower) == [ErrorCode.NONE]
    assert groups.commit(offset, joined=follower._replace(generation=1)) == [ErrorCode.ILLEGAL_GENERATION]
    assert groups.commit(offset, joined=follower._replace(member_id="x")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert groups.commit(offset, joined=follower, instance_id="x") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert groups.commit(offset) == [ErrorCode.UNKNOWN_MEMBER_ID], "the group has members now"
    groups.start_join(leader.member_id)
    assert groups.commit(offset, joined=follower) == [ErrorCode.NONE], "the last moment before rejoining"
    groups.join(follower.member_id)
    assert groups.commit(offset, joined=follower._replace(generation=3)) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_generation_without_a_group_is_refused(groups: Coordinator) -> None:
    offset, joined = NewOffset("t", 0, 5), Coordinator().join()
    assert groups.commit(offset, joined=joined, knows_epochs=False) == [ErrorCode.ILLEGAL_GENERATION]
    assert groups.commit(offset, joined=joined) == [ErrorCode.GROUP_ID_NOT_FOUND], "from OffsetCommit 9 on"
    assert groups.machine.groups == {}


def test_a_commit_keeps_a_session_alive(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    groups.advance(9_000)
    groups.commit(NewOffset("t", 0, 1), joined=follower)
    groups.heartbeat(leader)
    groups.advance(9_000)
    assert groups.heartbeat(follower) is ErrorCode.NONE


def test_metadata_that_is_too_large_refuses_its_partition_only(groups: Coordinator) -> None:
    codes = groups.commit(NewOffset("t", 0, 5, metadata="x" * 4097), NewOffset("t", 1, 6, metadata="x" * 4096))
    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert groups.committed() == {("t", 1): 6}


def test_a_restart_keeps_every_offset(groups: Coordinator) -> None:
    groups.commit(NewOffset("t", 0, 5, leader_epoch=3, metadata="über"))
    groups.commit(NewOffset("t", 0, 9, leader_epoch=4, metadata=""))
    groups.commit(NewOffset("u", 7, 1), group_id="h")
    before = groups.machine.offsets_of("g"), groups.machine.offsets_of("h")
    groups.restart()
    assert (groups.machine.offsets_of("g"), groups.machine.offsets_of("h")) == before
    assert groups.committed() == {("t", 0): 9}


def test_deleting_a_group(groups: Coordinator) -> None:
    leader, follower = groups.stable_pair()
    groups.commit(NewOffset("t", 0, 5), joined=leader)
    assert groups.carry_out(groups.machine.delete("g")) is ErrorCode.NON_EMPTY_GROUP
    groups.leave(Leaving(leader.member_id), Leaving(follower.member_id))
    assert groups.committed() == {("t", 0): 5}
    assert groups.carry_out(groups.machine.delete("g")) is ErrorCode.NONE
    assert groups.carry_out(groups.machine.delete("g")) is ErrorCode.GROUP_ID_NOT_FOUND
    groups.restart()
    assert groups.machine.groups == {}


def test_deleting_offsets_spares_what_is_being_read(groups: Coordinator) -> None:
    groups.commit(NewOffset("read", 0, 1), NewOffset("idle", 0, 1))
    joined = groups.join(protocols=(("range", subscription("read")),))
    groups.sync(joined)
    codes = groups.carry_out(groups.machine.delete_offsets("g", [("read", 0), ("idle", 0), ("idle", 9)]))
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
    assert groups.committed() == {("read", 0): 1}
    with pytest.raises(Refusal, match="GROUP_ID_NOT_FOUND"):
        groups.machine.delete_offsets("none", [])


def test_deleting_offsets_of_a_group_that_is_no_consumer(groups: Coordinator) -> None:
    groups.sync(groups.join(protocol_type="connect"))
    with pytest.raises(Refusal, match="NON_EMPTY_GROUP"):
        groups.machine.delete_offsets("g", [("t", 0)])


def test_offsets_of_deleted_topics_go(groups: Coordinator) -> None:
    groups.commit(NewOffset("t", 0, 5), NewOffset("u", 0, 5))
    groups.carry_out(groups.machine.forget(lambda offset: offset.topic == "t"))
    groups.restart()
    assert groups.committed() == {("u", 0): 5}


def test_retention_counts_from_the_last_member_that_left(groups: Coordinator) -> None:
    joined = groups.join()
    groups.sync(joined)
    groups.commit(NewOffset("t", 0, 5), joined=joined)
    groups.advance(5_000)
    groups.leave(Leaving(joined.member_id))
    groups.advance(7 * DAY_MS - HOUR_MS)
    assert groups.committed() == {("t", 0): 5}
    groups.advance(2 * HOUR_MS)
    assert groups.machine.groups == {}
    groups.restart()
    assert groups.machine.groups == {}


def test_offsets_of_a_consumer_without_group_protocol_age_one_by_one(groups: Coordinator) -> None:
    groups.commit(NewOffset("t", 0, 5))
    groups.advance(4 * DAY_MS)
    groups.commit(NewOffset("t", 1, 5))
    groups.advance(4 * DAY_MS)
    assert groups.committed() == {("t", 1): 5}


def test_a_retention_time_of_the_clients_choice(groups: Coordinator) -> None:
    groups.commit(NewOffset("t", 0, 5), retention_ms=HOUR_MS)
    groups.restart()
    groups.advance(HOUR_MS // 2)
    assert groups.committed() == {("t", 0): 5}
    groups.advance(HOUR_MS)
    assert groups.machine.groups == {}


def test_a_living_group_keeps_what_it_reads_and_forgets_what_it_no_longer_reads(groups: Coordinator) -> None:
    groups.commit(NewOffset("read", 0, 1), NewOffset("idle", 0, 1))
    joined = groups.join(protocols=(("range", subscription("read")),), session_timeout_ms=1_800_000)
    groups.sync(joined)
    for _ in range(8 * 48 + 1):
        groups.advance(HOUR_MS // 2 - 1)
        assert groups.heartbeat(joined) is ErrorCode.NONE
    assert groups.committed() == {("read", 0): 1}


def test_listing_by_state(groups: Coordinator) -> None:
    groups.stable_pair()
    groups.commit(NewOffset("t", 0, 1), group_id="simple")
    assert [row.group_id for row in groups.machine.listing({"stable"})] == ["g"]
    assert [row.group_id for row in groups.machine.listing({"empty"})] == ["simple"]
    assert [row.group_id for row in groups.machine.listing({"dead"})] == []
