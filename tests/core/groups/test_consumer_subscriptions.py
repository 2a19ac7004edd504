"""What consumer groups read: topics that come, go and grow, other subscriptions, expressions (KIP-848)."""

from __future__ import annotations

import pytest
from consumer_cluster import Cluster, Consumer, settle

from runnel.core.groups.records import EpochSaved, Key, RegexSaved, Removed
from runnel.wire.errors import ErrorCode


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.set_topic("t", 2)
    return made


def names_of(member: Consumer) -> dict[str, list[int]]:
    names = member.cluster.names
    return {names.get(topic_id, "deleted"): partitions for topic_id, partitions in member.owned.items()}


def test_a_topic_that_does_not_exist_yet_is_awaited(cluster: Cluster) -> None:
    member = Consumer(cluster, "a", topics=["later"]).join()
    assert member.partitions == []
    cluster.set_topic("later", 2)
    member.beat()
    assert (names_of(member), member.epoch) == ({"later": [0, 1]}, 3)


def test_new_partitions_are_assigned(cluster: Cluster) -> None:
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    settle(first, second)
    cluster.set_topic("t", 5)
    settle(first, second)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3, 4]
    assert cluster.state() == "Stable"


def test_topics_that_nobody_reads_wake_nobody(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    logged = len(cluster.log)
    cluster.set_topic("other", 7)
    member.beat()
    assert len(cluster.log) == logged


def test_a_deleted_topic_is_given_up(cluster: Cluster) -> None:
    cluster.set_topic("u", 1)
    member = Consumer(cluster, "a", topics=["t", "u"]).join()
    cluster.delete_topic("t")
    assert member.beat().epoch == 2
    assert names_of(member) == {"u": [0]}
    assert member.beat().epoch == 3
    assert cluster.state() == "Stable"


def test_a_topic_of_the_same_name_is_another_topic(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    before = dict(member.owned)
    cluster.delete_topic("t")
    cluster.set_topic("t", 2)
    settle(member)
    assert member.partitions == [0, 1]
    assert member.owned.keys().isdisjoint(before)


def test_another_subscription_takes_effect_at_once(cluster: Cluster) -> None:
    cluster.set_topic("u", 1)
    first, second = Consumer(cluster, "a").join(), Consumer(cluster, "b").join()
    settle(first, second)
    reply = second.beat(topics=["u"])
    assert reply.assignment == {}, "what it no longer reads is taken from it"
    settle(first, second)
    assert (names_of(first), names_of(second)) == ({"t": [0, 1]}, {"u": [0]})


def test_a_rack_and_an_assignor_are_kept_and_begin_no_epoch(cluster: Cluster) -> None:
    member = Consumer(cluster, "a", rack_id="r1").join()
    cluster.beat("a", member.epoch, assignor="range", rack_id="r2")
    (row,) = cluster.describe().members
    assert (row.member.rack_id, row.member.assignor, cluster.describe().epoch) == ("r2", "range", member.epoch)


def test_metadata_that_changes_while_the_broker_is_down_is_noticed(cluster: Cluster) -> None:
    member = Consumer(cluster, "a").join()
    cluster.set_topic("t", 4)
    cluster.restart()
    member.beat()
    assert member.partitions == [0, 1, 2, 3]


# ------------------------------------------------------------------------------------------ expressions


def test_an_expression_is_resolved_with_the_join(cluster: Cluster) -> None:
    cluster.set_topic("log-a", 1)
    cluster.set_topic("log-b", 1)
    member = Consumer(cluster, "a", topics=None, regex="log-.*").join()
    assert names_of(member) == {"log-a": [0], "log-b": [0]}
    saved = [record for record in cluster.records() if isinstance(record, RegexSaved)]
    assert [(record.regex, record.topics) for record in saved] == [("log-.*", ("log-a", "log-b"))]


def test_topics_that_come_and_go_are_noticed(cluster: Cluster) -> None:
    member = Consumer(cluster, "a", topics=None, regex="log-.*").join()
    assert member.partitions == []
    cluster.set_topic("log-a", 1)
    member.beat()
    assert names_of(member) == {"log-a": [0]}
    cluster.set_topic("log-b", 2)
    member.beat()
    assert names_of(member) == {"log-a": [0], "log-b": [0, 1]}
    cluster.delete_topic("log-a")
    settle(member)
    assert names_of(member) == {"log-b": [0, 1]}
    logged = len(cluster.log)
    cluster.set_topic("other", 1)
    member.beat()
    assert len(cluster.log) == logged, "what matches is the same"


def test_names_and_an_expression_add_up(cluster: Cluster) -> None:
    cluster.set_topic("log-a", 1)
    member = Consumer(cluster, "a", topics=["t"], regex="log-.*").join()
    assert names_of(member) == {"t": [0, 1], "log-a": [0]}
    member.beat(regex="")
    settle(member)
    assert names_of(member) == {"t": [0, 1]}


def test_an_expression_goes_with_its_last_member(cluster: Cluster) -> None:
    first = Consumer(cluster, "a", topics=None, regex="t").join()
    second = Consumer(cluster, "b", topics=None, regex="t").join()
    first.leave()
    assert Removed(Key.REGEX, "g", "t") not in cluster.records()
    second.beat(topics=["t"], regex="")
    assert cluster.records().count(Removed(Key.REGEX, "g", "t")) == 1
    third = Consumer(cluster, "c", topics=None, regex="t|u").join()
    third.leave()
    assert Removed(Key.REGEX, "g", "t|u") in cluster.records()


def test_a_restart_keeps_what_was_resolved_and_looks_again(cluster: Cluster) -> None:
    member = Consumer(cluster, "a", topics=None, regex="log-.*").join()
    cluster.set_topic("log-a", 1)
    member.beat()
    cluster.set_topic("log-b", 1)
    cluster.restart()
    assert cluster.machine.regexes_to_resolve("g", cluster.now_ms) == ["log-.*"]
    member.beat()
    assert names_of(member) == {"log-a": [0], "log-b": [0]}


def test_expressions_are_looked_at_again_after_the_interval(cluster: Cluster) -> None:
    cluster.configure("g", consumer_session_timeout_ms="60000")
    member = Consumer(cluster, "a", topics=None, regex="t").join()
    member.beat()
    looked_ms, stale = cluster.now_ms, cluster.machine.regexes_to_resolve
    assert stale("g", looked_ms + 600_000) == []
    assert stale("g", looked_ms + 600_001) == ["t"]
    for _ in range(11):
        cluster.advance(55_000)
        member.beat()
    logged = len(cluster.log)
    assert stale("g", cluster.now_ms) == [], "one look, which found nothing new, was enough"
    member.beat()
    assert len(cluster.log) == logged


def test_offsets_of_what_is_read_are_not_deleted(cluster: Cluster) -> None:
    cluster.set_topic("log-a", 1)
    Consumer(cluster, "a", topics=["t"], regex="log-.*").join()
    wanted = [("t", 0), ("log-a", 0), ("other", 0)]
    codes = cluster.carry_out(cluster.machine.delete_offsets("g", wanted))
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert codes == [subscribed, subscribed, ErrorCode.NONE]


def test_the_hash_is_nothing_where_nothing_is_read(cluster: Cluster) -> None:
    Consumer(cluster, "a").join().leave()
    hashes = [record.metadata_hash for record in cluster.records() if isinstance(record, EpochSaved)]
    assert hashes[0] != 0
    assert hashes[-1] == 0
