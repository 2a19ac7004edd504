"""Groups that change their protocol while their members live: upwards, mixed, downwards, and what is refused."""

from __future__ import annotations

import pytest
from classic_member import ClassicConsumer, run, subscription
from consumer_cluster import Cluster, Consumer

from runnel.core.groups import ConsumerLimits, JoinReply, MigrationPolicy, NewOffset
from runnel.core.groups.embedded import read_assignment, read_subscription, write_assignment
from runnel.core.groups.records import GroupRemoved, GroupSaved
from runnel.wire.errors import ErrorCode, Malformed

RETURNS_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.set_topic("t", 3)
    return made


def group_type(cluster: Cluster) -> str:
    (row,) = cluster.machine.listing()
    return row.group_type


def everything(*members: ClassicConsumer | Consumer) -> list[int]:
    return sorted(partition for member in members for partition in member.partitions)


@pytest.mark.parametrize("cooperative", [True, False])
def test_a_classic_group_is_upgraded_by_the_first_consumer_and_downgraded_after_the_last(
    cluster: Cluster, cooperative: bool
) -> None:
    old = [ClassicConsumer(cluster, cooperative=cooperative) for _ in range(2)]
    run(*old)
    assert (group_type(cluster), everything(*old)) == ("classic", [0, 1, 2])
    generation = old[0].generation
    new = Consumer(cluster, "new").join()
    assert (group_type(cluster), new.partitions, cluster.describe().epoch) == ("consumer", [], generation + 1)
    run(*old, new)
    assert everything(*old, new) == [0, 1, 2]
    assert [len(member.partitions) for member in (*old, new)] == [1, 1, 1]
    assert cluster.state() == "Stable"
    cluster.restart()
    run(*old, new)
    assert everything(*old, new) == [0, 1, 2]
    new.leave()
    assert (group_type(cluster), cluster.state()) == ("classic", "PreparingRebalance")
    run(*old)
    assert (cluster.state(), everything(*old)) == ("Stable", [0, 1, 2])
    cluster.restart()
    run(*old)
    assert (group_type(cluster), everything(*old)) == ("classic", [0, 1, 2])


def test_a_crash_after_a_downgrade_does_not_end_the_rebalance(cluster: Cluster) -> None:
    old = [ClassicConsumer(cluster) for _ in range(2)]
    new = Consumer(cluster, "new").join()
    run(*old, new)
    new.leave()
    cluster.restart()
    assert cluster.state() == "PreparingRebalance", "somebody has to take what the third one left"
    run(*old)
    assert (cluster.state(), everything(*old)) == ("Stable", [0, 1, 2])


def test_nobody_is_given_what_another_still_has_by_a_downgrade(cluster: Cluster) -> None:
    """The group goes back in the middle of a rebalance, and the coordinator crashes: each has what it had."""
    first, new = ClassicConsumer(cluster), Consumer(cluster, "new").join()
    run(first, new)
    second = ClassicConsumer(cluster)
    second.step()
    held = {first.member_id: first.partitions, second.member_id: second.partitions}
    assert held[second.member_id] == [], "what it shall have is not free yet"
    new.leave()
    cluster.restart()
    saved = [record for record in cluster.records() if isinstance(record, GroupSaved)][-1]
    assert saved.leader is None
    given = {member.member_id: read_assignment(member.assignment) for member in saved.members}
    assert {member_id: list(topics.get("t", ())) for member_id, topics in given.items()} == held


def test_offsets_stay(cluster: Cluster) -> None:
    old = ClassicConsumer(cluster)
    run(old)
    joined = JoinReply(member_id=old.member_id, generation=old.generation)
    cluster.commit(NewOffset("t", 0, 7), joined=joined)
    new = Consumer(cluster, "new").join()
    assert cluster.commit(NewOffset("t", 0, 8), joined=joined) == [ErrorCode.NONE], "the generation is its epoch"
    run(old, new)
    assert cluster.commit(NewOffset("t", 0, 9), joined=joined) == [ErrorCode.ILLEGAL_GENERATION]
    new.leave()
    cluster.restart()
    assert cluster.committed() == {("t", 0): 8}


def test_a_group_that_is_being_rebalanced_is_upgraded_too(cluster: Cluster) -> None:
    first = ClassicConsumer(cluster)
    run(first)
    second = ClassicConsumer(cluster)
    second.step()
    assert cluster.state() == "PreparingRebalance"
    waiting = second.join_token
    assert waiting is not None
    new = Consumer(cluster, "new").join()
    assert cluster.answers[waiting].code is RETURNS_IN_PROGRESS
    run(first, second, new)
    assert everything(first, second, new) == [0, 1, 2]


def test_what_a_cooperative_member_kept_in_an_unfinished_round_is_still_its_own(cluster: Cluster) -> None:
    """It has rejoined, and the leader has not assigned: it reads on what it said it has."""
    first = ClassicConsumer(cluster)
    run(first)
    cluster.start_join(
        first.member_id, protocols=(("cooperative-sticky", subscription(("t",), {"t": (0, 1, 2)})),), client_id="x"
    )
    assert cluster.state() == "CompletingRebalance"
    Consumer(cluster, "new").join()
    assert cluster.held()[first.member_id] == [0, 1, 2]


REFUSED = [
    ({"protocol_type": "connect"}, "does not use the consumer embedded protocol"),
    ({"protocols": (("range", b"x"),)}, "the embedded consumer protocol is malformed"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_groups_that_cannot_be_upgraded(cluster: Cluster, options: dict[str, object], words: str) -> None:
    cluster.sync(cluster.join(**options))
    refused = cluster.beat("new")
    assert refused.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert words in (refused.message or "")
    assert (cluster.state(), group_type(cluster)) == ("Stable", "classic")
    assert cluster.beat("new", 3).message == "Group g is not a consumer group."


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    cluster = Cluster(consumer=ConsumerLimits(members_max=1))
    cluster.stable_pair()
    assert "exceeds the consumer group maximum size" in (cluster.beat("new").message or "")


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades", "mixes"),
    [
        (MigrationPolicy.BIDIRECTIONAL, True, True, True),
        (MigrationPolicy.UPGRADE, True, False, True),
        (MigrationPolicy.DOWNGRADE, False, True, True),
        (MigrationPolicy.DISABLED, False, False, False),
    ],
)
def test_policies(policy: MigrationPolicy, upgrades: bool, downgrades: bool, mixes: bool) -> None:
    cluster = Cluster(consumer=ConsumerLimits(migration_policy=policy))
    cluster.set_topic("t", 3)
    old = ClassicConsumer(cluster)
    run(old)
    code = ErrorCode.NONE if upgrades else ErrorCode.GROUP_ID_NOT_FOUND
    assert cluster.beat("new").code is code
    cluster = Cluster(consumer=ConsumerLimits(migration_policy=policy))
    cluster.set_topic("t", 3)
    new = Consumer(cluster, "new").join()
    protocols = (("range", subscription(("t",))),)
    code = ErrorCode.NONE if mixes else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert cluster.join(protocols=protocols).code is code
    new.leave()
    if mixes:
        assert group_type(cluster) == ("classic" if downgrades else "consumer")


def test_empty_groups_change_freely() -> None:
    cluster = Cluster(consumer=ConsumerLimits(migration_policy=MigrationPolicy.DISABLED))
    cluster.set_topic("t", 3)
    cluster.commit(NewOffset("t", 0, 4))
    new = Consumer(cluster, "new").join()
    assert (group_type(cluster), GroupRemoved("g") in cluster.records()) == ("consumer", True)
    new.leave()
    refused = cluster.join(protocols=())
    assert (refused.code, group_type(cluster)) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "consumer")
    assert cluster.join("stranger").code is ErrorCode.UNKNOWN_MEMBER_ID
    old = ClassicConsumer(cluster)
    run(old)
    assert (group_type(cluster), old.partitions) == ("classic", [0, 1, 2])
    cluster.restart()
    assert (group_type(cluster), cluster.committed()) == ("classic", {("t", 0): 4})


# ------------------------------------------------------------------------------------------ classic members


def mixed(cluster: Cluster) -> tuple[ClassicConsumer, Consumer]:
    old = ClassicConsumer(cluster, instance_id="old")
    run(old)
    new = Consumer(cluster, "new").join()
    run(old, new)
    return old, new


def test_a_classic_member_joins_a_consumer_group(cluster: Cluster) -> None:
    new = Consumer(cluster, "new").join()
    asked = cluster.join(member_id_required=True, protocols=(("range", subscription(("t",))),))
    assert asked.code is ErrorCode.MEMBER_ID_REQUIRED
    old = ClassicConsumer(cluster, cooperative=False)
    run(old, new)
    assert everything(old, new) == [0, 1, 2]
    described = {row.member.member_id: row.member.classic is not None for row in cluster.describe().members}
    assert described == {"new": False, old.member_id: True}


def test_the_reply_makes_nobody_a_leader(cluster: Cluster) -> None:
    Consumer(cluster, "new").join()
    joined = cluster.join(protocols=(("range", subscription(("t",))), ("sticky", b"")))
    assert (joined.code, joined.generation, joined.leader, joined.members) == (ErrorCode.NONE, 3, "", ())
    assert (joined.protocol_type, joined.protocol) == ("consumer", "range")


def test_requests_of_classic_members_that_are_refused(cluster: Cluster) -> None:
    old, new = mixed(cluster)
    joined = JoinReply(member_id=old.member_id, generation=old.generation)
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    good = (("cooperative-sticky", subscription(("t",))),)
    assert cluster.join(protocols=(("weird", subscription(("t",))),)) == JoinReply(code)
    assert cluster.join(protocols=good, protocol_type="connect").code is code
    assert cluster.join(protocols=(("cooperative-sticky", b"\0"),)).code is code
    assert cluster.join("x", "other", protocols=good).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.join("x", "old", protocols=good).code is ErrorCode.FENCED_INSTANCE_ID
    assert cluster.sync(joined, instance_id="old", protocol="range").code is code
    assert cluster.sync(joined, instance_id="old", protocol_type="connect").code is code
    assert cluster.sync(joined._replace(generation=99), instance_id="old").code is ErrorCode.ILLEGAL_GENERATION
    assert cluster.sync(joined._replace(member_id="new")).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.heartbeat(joined._replace(member_id="new")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.heartbeat(joined._replace(generation=99), "old") is ErrorCode.ILLEGAL_GENERATION
    assert cluster.heartbeat(joined, "old") is ErrorCode.NONE
    assert new.beat().code is ErrorCode.NONE


def test_a_classic_member_that_is_told_to_rejoin_and_does_not_is_out(cluster: Cluster) -> None:
    old, new = mixed(cluster)
    Consumer(cluster, "third").join()
    joined = JoinReply(member_id=old.member_id, generation=old.generation)
    for _ in range(8):
        assert cluster.heartbeat(joined, "old") in (RETURNS_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
        assert cluster.sync(joined, instance_id="old").code in (RETURNS_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
        cluster.advance(8_000)
        new.beat()
    assert old.member_id not in cluster.held()


def test_a_classic_member_that_joins_and_does_not_sync_is_out(cluster: Cluster) -> None:
    new = Consumer(cluster, "new").join()
    joined = cluster.join(protocols=(("range", subscription(("t",))),), session_timeout_ms=300_000)
    for _ in range(7):
        cluster.advance(9_000)
        new.beat()
    assert set(cluster.held()) == {"new"}
    assert cluster.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_and_used_has_no_deadline(cluster: Cluster) -> None:
    """Found by the random test: the classic group's patience with a new id went on in the consumer group."""
    old = ClassicConsumer(cluster)
    run(old)
    new = Consumer(cluster, "new").join()
    for _ in range(12):
        cluster.advance(1_000)
        run(old, new, rounds=1)
    assert set(cluster.held()) == {"new", old.member_id}


def test_a_silent_classic_member_is_out_after_its_own_session(cluster: Cluster) -> None:
    old, new = mixed(cluster)
    cluster.advance(9_999)
    new.beat()
    assert old.member_id in cluster.held()
    cluster.advance(1)
    assert set(cluster.held()) == {"new"}


def test_a_classic_member_leaves(cluster: Cluster) -> None:
    old, new = mixed(cluster)
    left = old.leave()
    assert [code for _, code in left.members] == [ErrorCode.NONE]
    run(new)
    assert new.partitions == [0, 1, 2]


# ------------------------------------------------------------------------------------------ static members


def test_static_members_change_their_protocol_in_place(cluster: Cluster) -> None:
    """A rolling upgrade and downgrade of static members: nothing moves."""
    old = [ClassicConsumer(cluster, instance_id=name) for name in ("one", "two")]
    run(*old)
    parts = [member.partitions for member in old]
    epoch = old[0].generation
    one = Consumer(cluster, "c1", instance_id="one").join()
    assert (one.partitions, one.epoch) == (parts[0], epoch)
    old[0].step()
    assert old[0].member_id == "", "its old self is fenced"
    two = Consumer(cluster, "c2", instance_id="two").join()
    assert (two.partitions, cluster.state(), cluster.describe().epoch) == (parts[1], "Stable", epoch)
    back = [ClassicConsumer(cluster, instance_id=name) for name in ("one", "two")]
    back[0].step()
    assert (group_type(cluster), back[0].partitions) == ("consumer", parts[0])
    back[1].step()
    assert (group_type(cluster), back[1].partitions, cluster.state()) == ("classic", parts[1], "Stable")
    cluster.restart()
    run(*back)
    assert [member.partitions for member in back] == parts
    saved = [record for record in cluster.records() if isinstance(record, GroupSaved)]
    assert {member.instance_id for member in saved[-1].members} == {"one", "two"}


# ------------------------------------------------------------------------------------------ embedded protocol


@pytest.mark.parametrize("version", range(5))
def test_subscriptions_of_every_version(version: int) -> None:
    read = read_subscription(subscription(("t", "u"), {"t": (0, 2)}, version, "rack"))
    assert read.topics == ("t", "u")
    assert read.version == min(version, 3)
    assert read.owned == ({"t": (0, 2)} if version >= 1 else {})
    assert read.rack_id == ("rack" if version >= 3 else None)


def test_assignments_there_and_back() -> None:
    assert read_assignment(write_assignment({"t": [0, 2], "u": []}, 1)) == {"t": (0, 2), "u": ()}
    assert read_assignment(b"") == {}


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\x7f\xff\xff\xff", b"\0\1\0\0\0\1\0\1"])
def test_bytes_that_are_neither(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_subscription(data)
    with pytest.raises(Malformed):
        read_assignment(data)
