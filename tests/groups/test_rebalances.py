"""Members share partitions, come and go, crash and come back: librdkafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groups.consumers import Watched, consumer, poll_until, produce
from harness.process import BrokerProcess

NewTopic = Callable[..., str]
EVERYTHING = list(range(4))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_members_share_and_one_takes_over(bootstrap: str, new_topic: NewTopic, strategy: str) -> None:
    topic = new_topic(partitions=4)
    produce(bootstrap, topic, 5, 4)
    settings = {"partition_assignment_strategy": strategy}
    with consumer(bootstrap, topic, **settings) as one:
        first = Watched(one, topic)
        poll_until(lambda: len(first.values) == 20, "everything by one member", first)
        with consumer(bootstrap, topic, **settings) as two:
            second = Watched(two, topic)
            poll_until(lambda: len(second.partitions) == 2 and len(first.partitions) == 2, "halves", first, second)
            assert sorted(first.partitions + second.partitions) == EVERYTHING
            if strategy == "cooperative-sticky":
                assert len(first.revoked) == 2, "only what moves is given up"
        poll_until(lambda: first.partitions == EVERYTHING, "all of it back", first)


def test_a_static_member_restarts_without_a_rebalance(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    static = {"session_timeout_ms": 30_000}
    with consumer(bootstrap, topic, group_instance_id="one", **static) as one:
        first = Watched(one, topic)
        poll_until(lambda: first.partitions == EVERYTHING, "the first member", first)
        with consumer(bootstrap, topic, group_instance_id="two", **static) as two:
            second = Watched(two, topic)
            poll_until(lambda: len(second.partitions) == 2 and len(first.partitions) == 2, "halves", first, second)
            before, rebalances = second.partitions, first.rebalances
        with consumer(bootstrap, topic, group_instance_id="two", **static) as two:  # a static member does not leave
            again = Watched(two, topic)
            poll_until(lambda: again.partitions == before, "the same partitions again", again, first)
        assert first.rebalances == rebalances


def test_a_member_that_falls_silent_is_replaced(
    start_broker: Callable[..., BrokerProcess], new_name: Callable[[], str]
) -> None:
    from harness.topics import create_topic

    broker = start_broker({"group.min.session.timeout.ms": 500})
    topic = new_name()
    create_topic(broker.address, topic, 4)
    silent = consumer(broker.address, topic, session_timeout_ms=1_000, max_poll_interval_ms=1_000)
    lively = consumer(broker.address, topic, session_timeout_ms=1_000)
    with silent as one, lively as two:
        first, second = Watched(one, topic), Watched(two, topic)
        poll_until(lambda: len(second.partitions) == 2 and len(first.partitions) == 2, "halves", first, second)
        poll_until(lambda: second.partitions == EVERYTHING, "the partitions of who stopped polling", second)


def test_a_group_goes_on_when_the_broker_is_back(
    start_broker: Callable[..., BrokerProcess], new_name: Callable[[], str]
) -> None:
    from harness.topics import create_topic

    broker = start_broker()
    topic = new_name()
    create_topic(broker.address, topic, 4)
    produce(broker.address, topic, 5, 4)
    with consumer(broker.address, topic, reconnect_backoff_max_ms=200) as one:
        first = Watched(one, topic)
        poll_until(lambda: len(first.values) == 20, "everything", first)
        one.commit(asynchronous=False)
        rebalances = first.rebalances
        broker.kill()
        broker.start()
        produce(broker.address, topic, 1, 4)
        poll_until(lambda: len(first.values) == 24, "what came after the restart", first)
        one.commit(asynchronous=False)
        assert first.rebalances == rebalances, "its session goes on"
        assert {p.offset for p in one.committed(one.assignment(), timeout=30)} == {6}
