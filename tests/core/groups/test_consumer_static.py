"""Static members of consumer groups (KIP-345 as KIP-848 has it): they keep their place while they are away."""

from __future__ import annotations

import pytest
from consumer_cluster import Cluster, Consumer, settle

from runnel.core.groups import Leaving
from runnel.wire.errors import ErrorCode


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.set_topic("t", 4)
    return made


def pair(cluster: Cluster) -> tuple[Consumer, Consumer]:
    one = Consumer(cluster, "a", instance_id="one").join()
    two = Consumer(cluster, "b", instance_id="two").join()
    settle(one, two)
    return one, two


def test_a_static_member_comes_back_to_its_partitions(cluster: Cluster) -> None:
    one, two = pair(cluster)
    had, epoch = two.partitions, cluster.describe().epoch
    left = two.leave(-2)
    assert (left.code, left.epoch) == (ErrorCode.NONE, -2)
    assert cluster.held()["b"] == had, "nobody else gets them meanwhile"
    one.beat()
    back = Consumer(cluster, "c", instance_id="two").join()
    assert (back.partitions, back.epoch) == (had, epoch)
    assert (cluster.describe().epoch, cluster.state()) == (epoch, "Stable")
    assert cluster.beat("b", epoch, instance_id="two").code is ErrorCode.FENCED_INSTANCE_ID
    cluster.restart()
    assert back.beat().code is ErrorCode.NONE


def test_the_group_may_move_on_meanwhile(cluster: Cluster) -> None:
    one, two = pair(cluster)
    two.leave(-2)
    three = Consumer(cluster, "c").join()
    settle(one, three)
    back = Consumer(cluster, "d", instance_id="two").join()
    settle(one, three, back)
    assert sorted(one.partitions + three.partitions + back.partitions) == [0, 1, 2, 3]
    assert cluster.state() == "Stable"


def test_who_does_not_come_back_is_out_after_the_session(cluster: Cluster) -> None:
    one, two = pair(cluster)
    two.leave(-2)
    cluster.advance(44_000)
    one.beat()
    cluster.advance(1_000)
    settle(one)
    assert one.partitions == [0, 1, 2, 3]


def test_an_instance_that_has_not_left_is_not_replaced(cluster: Cluster) -> None:
    _, two = pair(cluster)
    refused = cluster.beat("c", instance_id="two")
    assert refused.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert "owned by b member" in (refused.message or "")
    assert cluster.beat("c", 2, instance_id="two").code is ErrorCode.FENCED_INSTANCE_ID
    assert cluster.beat("c", 2, instance_id="three").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.beat("c", -2, instance_id="two").code is ErrorCode.FENCED_INSTANCE_ID
    assert cluster.beat("c", -1, instance_id="three").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert two.beat().code is ErrorCode.NONE


def test_an_instance_does_not_take_the_id_of_another_member(cluster: Cluster) -> None:
    _, two = pair(cluster)
    two.leave(-2)
    assert cluster.beat("a", instance_id="two").code is ErrorCode.INVALID_REQUEST
    assert cluster.held()["a"] == [0, 1]


def test_a_member_that_left_for_now_is_fenced_until_it_joins(cluster: Cluster) -> None:
    _, two = pair(cluster)
    epoch = two.epoch
    two.leave(-2)
    assert cluster.beat("b", epoch, instance_id="two").code is ErrorCode.FENCED_MEMBER_EPOCH
    assert cluster.beat("b", instance_id="two").code is ErrorCode.NONE, "under the same id, too"


def test_leaving_for_good(cluster: Cluster) -> None:
    one, two = pair(cluster)
    assert two.leave(-1).code is ErrorCode.NONE
    settle(one)
    assert one.partitions == [0, 1, 2, 3]


def test_what_was_being_given_up_is_free_when_a_member_leaves_for_now(cluster: Cluster) -> None:
    one = Consumer(cluster, "a", instance_id="one").join()
    two = Consumer(cluster, "b").join()
    cluster.beat("a", one.epoch)  # told to give two partitions up
    one.leave(-2)
    two.beat()
    assert two.partitions == [2, 3]
    cluster.advance(44_000)
    assert "a" in cluster.held(), "it has its session to come back, not the time to give up"


def test_an_administrator_removes_a_static_member_by_its_instance(cluster: Cluster) -> None:
    one, _ = pair(cluster)
    left = cluster.leave(Leaving("", "two"), Leaving("", "three"), Leaving("x", "one"), Leaving("", "two"))
    codes = [code for _, code in left.members]
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [ErrorCode.NONE, unknown, ErrorCode.FENCED_INSTANCE_ID, unknown]
    settle(one)
    assert one.partitions == [0, 1, 2, 3]
