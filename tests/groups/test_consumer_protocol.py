"""librdkafka with group.protocol=consumer (KIP-848): share, leave, static members, expressions, commits, migration,
and a broker that is killed in the middle of a rebalance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import AdminClient

from groups.conftest import QUICK_GROUPS
from groups.consumers import Watched, poll_until, produce
from harness.conditions import wait_until
from harness.process import BrokerProcess, free_port
from harness.topics import create_topic

SECONDS = 30.0
EVERYTHING = list(range(6))


@contextmanager
def member(bootstrap: str, group: str, protocol: str = "consumer", **settings: Any) -> Iterator[Consumer]:
    values = {key.replace("_", "."): value for key, value in settings.items()}
    if protocol == "classic":
        values.update({"heartbeat.interval.ms": 100, "session.timeout.ms": 10_000})
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "log_level": 2,
            **values,
        }
    )
    try:
        yield made
    finally:
        made.close()


class Owners:
    """What each member holds by its callbacks: one partition never has two of them."""

    def __init__(self) -> None:
        self.held: dict[str, set[tuple[str, int]]] = {}

    def watch(self, name: str, consumer: Consumer, *topics: str) -> Watched:
        self.held[name] = set()
        return _Watched(name, self, consumer, topics)

    def assigned(self, name: str, partitions: list[TopicPartition]) -> None:
        places = {(partition.topic, partition.partition) for partition in partitions}
        for other, held in self.held.items():
            assert other == name or held.isdisjoint(places), f"{name} was given {places} while {other} has {held}"
        self.held[name] |= places

    def revoked(self, name: str, partitions: list[TopicPartition]) -> None:
        self.held[name] -= {(partition.topic, partition.partition) for partition in partitions}


class _Watched(Watched):
    def __init__(self, name: str, owners: Owners, consumer: Consumer, topics: tuple[str, ...]) -> None:
        self.name = name
        self.owners = owners
        super().__init__(consumer, *topics)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        super()._assigned(consumer, partitions)
        self.owners.assigned(self.name, partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        super()._revoked(consumer, partitions)
        self.owners.revoked(self.name, partitions)


def shared(*members: Watched) -> bool:
    parts = [one.partitions for one in members]
    return sorted(p for part in parts for p in part) == EVERYTHING and max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.fixture
def topic(quick: BrokerProcess, new_name: Callable[[], str]) -> str:
    name = new_name()
    create_topic(quick.address, name, 6)
    return name


def test_three_members_share_and_two_take_over(quick: BrokerProcess, topic: str) -> None:
    produce(quick.address, topic, 5, 6)
    owners = Owners()
    with ExitStack() as stack:
        consumers = [stack.enter_context(member(quick.address, topic)) for _ in range(2)]
        watched = [owners.watch(f"m{number}", consumer, topic) for number, consumer in enumerate(consumers)]
        with member(quick.address, topic) as third:
            last = owners.watch("last", third, topic)
            poll_until(lambda: shared(*watched, last), "thirds", *watched, last)
        poll_until(lambda: shared(*watched), "halves", *watched)
        values = lambda: {value for one in (*watched, last) for value in one.values}  # noqa: E731
        poll_until(lambda: len(values()) == 30, "every record", *watched)


def test_a_static_member_comes_back_to_its_partitions(quick: BrokerProcess, topic: str) -> None:
    owners = Owners()
    with member(quick.address, topic, group_instance_id="one") as one:
        first = owners.watch("one", one, topic)
        with member(quick.address, topic, group_instance_id="two") as two:
            second = owners.watch("two", two, topic)
            poll_until(lambda: shared(first, second), "halves", first, second)
            before, rebalances = second.partitions, first.rebalances
        with member(quick.address, topic, group_instance_id="two") as two:
            again = owners.watch("two", two, topic)
            poll_until(lambda: again.partitions == before, "the same partitions again", again, first)
        assert first.rebalances == rebalances


def test_subscriptions_by_expression(quick: BrokerProcess, new_name: Callable[[], str]) -> None:
    prefix = new_name()
    create_topic(quick.address, f"{prefix}-a", 2)
    create_topic(quick.address, f"other-{prefix}", 2)
    with member(quick.address, prefix) as one:
        watched = Owners().watch("one", one, f"^{prefix}-.*")
        poll_until(lambda: len(watched.partitions) == 2, "what is there", watched)
        create_topic(quick.address, f"{prefix}-b", 1)
        poll_until(lambda: len(watched.partitions) == 3, "what came", watched)
        assert {place.topic for place in one.assignment()} == {f"{prefix}-a", f"{prefix}-b"}


def test_the_range_assignor_is_co_partitioned(quick: BrokerProcess, new_name: Callable[[], str]) -> None:
    one_topic, other_topic = new_name(), new_name()
    for name in (one_topic, other_topic):
        create_topic(quick.address, name, 4)
    owners = Owners()
    with ExitStack() as stack:
        settings = {"group_remote_assignor": "range"}
        consumers = [stack.enter_context(member(quick.address, one_topic, **settings)) for _ in range(2)]
        watched = [
            owners.watch(str(number), consumer, one_topic, other_topic) for number, consumer in enumerate(consumers)
        ]

        def numbers(consumer: Consumer, name: str) -> list[int]:
            return sorted(place.partition for place in consumer.assignment() if place.topic == name)

        def co_partitioned() -> bool:
            parts = [[numbers(consumer, name) for name in (one_topic, other_topic)] for consumer in consumers]
            return all(first == second and len(first) == 2 for first, second in parts)

        poll_until(co_partitioned, "the same numbers of both topics", *watched)


def test_a_member_commits_seeks_and_resumes(quick: BrokerProcess, topic: str) -> None:
    produce(quick.address, topic, 10)
    with member(quick.address, topic) as one:
        first = Watched(one, topic)
        poll_until(lambda: len(first.values) == 10, "ten records", first)
        one.commit(offsets=[TopicPartition(topic, 0, 4, "note")], asynchronous=False)
        (found,) = one.committed([TopicPartition(topic, 0)], timeout=SECONDS)
        assert (found.offset, found.metadata) == (4, "note")
        one.seek(TopicPartition(topic, 0, 8))
        poll_until(lambda: len(first.values) == 12, "two records again", first)
        assert first.values[-2:] == [(0, 8), (0, 9)]
    with member(quick.address, topic) as one:
        second = Watched(one, topic)
        poll_until(lambda: len(second.values) == 6, "what was not committed", second)


def test_a_consumer_group_is_listed_described_and_deleted(quick: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": quick.address})

    def listed(*types: ConsumerGroupType) -> dict[str, tuple[str, str]]:
        found = admin.list_consumer_groups(request_timeout=SECONDS, types=set(types)).result(SECONDS).valid
        return {group.group_id: (group.state.name, group.type.name) for group in found}

    with member(quick.address, topic, client_id="who") as one:
        watched = Watched(one, topic)
        poll_until(lambda: watched.partitions == EVERYTHING, "an assignment", watched)
        wait_until(lambda: listed(ConsumerGroupType.CONSUMER).get(topic) == ("STABLE", "CONSUMER"), "a stable group")
        assert topic not in listed(ConsumerGroupType.CLASSIC)
        described = admin.describe_consumer_groups([topic], request_timeout=SECONDS)[topic].result(SECONDS)
        (row,) = described.members
        assert (described.state.name, described.type.name, row.client_id) == ("STABLE", "CONSUMER", "who")
        assert len(row.assignment.topic_partitions) == len(row.target_assignment.topic_partitions) == 6
    wait_until(lambda: listed().get(topic) == ("EMPTY", "CONSUMER"), "the group is empty")
    admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    assert topic not in listed()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_rolling_upgrade_and_downgrade(quick: BrokerProcess, topic: str, strategy: str) -> None:
    owners = Owners()
    settings = {"partition_assignment_strategy": strategy}
    with ExitStack() as stack:
        with (
            member(quick.address, topic, "classic", **settings) as one,
            member(quick.address, topic, "classic", **settings) as two,
        ):
            old = [owners.watch(f"old{number}", consumer, topic) for number, consumer in enumerate((one, two))]
            poll_until(lambda: shared(*old), "classic", *old)
            first = owners.watch("new0", stack.enter_context(member(quick.address, topic)), topic)
            poll_until(lambda: shared(*old, first), "mixed", *old, first)
        second = owners.watch("new1", stack.enter_context(member(quick.address, topic)), topic)
        poll_until(lambda: shared(first, second), "upgraded", first, second)
        with member(quick.address, topic, "classic", **settings) as back:
            third = owners.watch("back", back, topic)
            poll_until(lambda: shared(first, second, third), "mixed again", first, second, third)
            stack.close()
            poll_until(lambda: third.partitions == EVERYTHING, "downgraded", third)


def test_a_broker_killed_in_the_middle_of_rebalances_loses_nothing(
    start_broker: Callable[..., BrokerProcess], new_name: Callable[[], str]
) -> None:
    """Each kill comes while members are joining or leaving: committed offsets stay, and the groups go on."""
    broker = start_broker(QUICK_GROUPS, port=free_port())
    topic = new_name()
    create_topic(broker.address, topic, 6)
    owners = Owners()
    with member(broker.address, topic) as one:
        first = owners.watch("first", one, topic)
        poll_until(lambda: first.partitions == EVERYTHING, "all of it", first)
        for number in (1, 2):
            produce(broker.address, topic, 2, 6)
            poll_until(lambda count=12 * number: len(set(first.values)) == count, "what is new", first)
            one.commit(asynchronous=False)
            with member(broker.address, topic) as two:
                _kill_in_a_rebalance(broker, first, owners.watch(f"second{number}", two, topic))
                places = [TopicPartition(topic, partition) for partition in EVERYTHING]
                found = [place.offset for place in two.committed(places, timeout=SECONDS)]
                assert found == [2 * number] * 6
            poll_until(lambda: first.partitions == EVERYTHING, "all of it back", first)


def _kill_in_a_rebalance(broker: BrokerProcess, first: Watched, second: Watched) -> None:
    first.revoked.clear()
    poll_until(lambda: bool(first.revoked), "a rebalance has begun", first, second)
    broker.kill()
    broker.start()
    poll_until(lambda: shared(first, second), "halves", first, second)
