"""Committed offsets: there after a restart, never going back, in every version of the API, and administered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from groups.consumers import Watched, consumer, poll_until, produce
from harness.conditions import wait_until
from harness.process import BrokerProcess, free_port
from harness.raw import RawConnection, topic_id_of
from harness.topics import create_topic

NewTopic = Callable[..., str]
OFFSET_COMMIT, OFFSET_FETCH = 8, 9
SECONDS = 30.0
WHILE_DEAD = ("_TRANSPORT", "_TIMED_OUT", "_WAIT_COORD")


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as connection:
        yield connection


def test_a_member_resumes_where_the_group_was(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce(bootstrap, topic, 10)
    place = TopicPartition(topic, 0)
    with consumer(bootstrap, topic) as one:
        first = Watched(one, topic)
        poll_until(lambda: len(first.values) == 10, "ten records", first)
        one.commit(offsets=[TopicPartition(topic, 0, 4, "note")], asynchronous=False)
        (found,) = one.committed([place], timeout=SECONDS)
        assert (found.offset, found.metadata) == (4, "note")
        one.seek(TopicPartition(topic, 0, 8))
        poll_until(lambda: len(first.values) == 12, "two records again", first)
        assert first.values[-2:] == [(0, 8), (0, 9)]
    with consumer(bootstrap, topic) as one:
        second = Watched(one, topic)
        poll_until(lambda: len(second.values) == 6, "what was not committed", second)
        assert second.values[0] == (0, 4)


def test_a_member_that_leaves_has_committed(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce(bootstrap, topic, 10)
    with consumer(bootstrap, topic, enable_auto_commit=True) as one:
        watched = Watched(one, topic)
        poll_until(lambda: len(watched.values) == 10, "ten records", watched)
    with consumer(bootstrap, topic) as one:
        assert one.committed([TopicPartition(topic, 0)], timeout=SECONDS)[0].offset == 10


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_of_commit_and_fetch(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    topic = new_topic(partitions=2)
    topic_id = topic_id_of(raw, topic)
    partitions = [
        {"partition_index": index, "committed_offset": version + index, "committed_metadata": "m"}
        for index in (0, 1, 7)
    ]
    names: dict[str, Any] = {"name": topic} if version < 10 else {"topic_id": topic_id}
    body = {"group_id": topic, "topics": [{**names, "partitions": partitions}], "generation_id_or_member_epoch": -1}
    reply = raw.request(OFFSET_COMMIT, version, body)
    codes = {p.partition_index: p.error_code for p in reply.topics[0].partitions}
    assert codes == {0: 0, 1: 0, 7: KafkaError.UNKNOWN_TOPIC_OR_PART}
    for fetch_version in range(1, 11):
        rows = _fetch(
            raw, fetch_version, topic, names={"name": topic} if fetch_version < 10 else {"topic_id": topic_id}
        )
        assert rows == [(0, version, "m", 0), (1, version + 1, "m", 0), (5, -1, "", 0)]
        if fetch_version >= 2:
            everything = _fetch(raw, fetch_version, topic, None)
            assert sorted(everything) == [(0, version, "m", 0), (1, version + 1, "m", 0)]


def _fetch(raw: RawConnection, version: int, group: str, names: dict[str, Any] | None) -> list[tuple[Any, ...]]:
    topics = None if names is None else [{**names, "partition_indexes": [0, 1, 5]}]
    asked = {"group_id": group, "topics": topics}
    if version >= 8:
        asked["member_epoch"] = -1
    reply = raw.request(OFFSET_FETCH, version, {"groups": [asked]} if version >= 8 else asked)
    found = reply.groups[0] if version >= 8 else reply
    assert getattr(found, "error_code", 0) == 0
    return [
        (p.partition_index, p.committed_offset, p.metadata, int(p.error_code))
        for topic in found.topics
        for p in topic.partitions
    ]


def test_groups_are_listed_described_altered_and_deleted(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def listed() -> dict[str, str]:
        groups = admin.list_consumer_groups(request_timeout=SECONDS).result(SECONDS).valid
        return {group.group_id: group.state.name for group in groups}

    with consumer(bootstrap, topic, client_id="who") as one:
        watched = Watched(one, topic)
        poll_until(lambda: len(watched.partitions) == 2, "an assignment", watched)
        assert listed()[topic] == "STABLE"
        described = admin.describe_consumer_groups([topic], request_timeout=SECONDS)[topic].result(SECONDS)
        (member,) = described.members
        assert (described.state.name, described.partition_assignor, member.client_id) == ("STABLE", "range", "who")
        assert len(member.assignment.topic_partitions) == 2
        assert _refusal(lambda: admin.delete_consumer_groups([topic])[topic].result(SECONDS)) == "NON_EMPTY_GROUP"
    wait_until(lambda: listed().get(topic) == "EMPTY", "the group is empty")
    wanted = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 1, 7)])
    admin.alter_consumer_group_offsets([wanted])[topic].result(SECONDS)
    asked = ConsumerGroupTopicPartitions(topic)
    found = admin.list_consumer_group_offsets([asked])[topic].result(SECONDS)
    assert [(p.partition, p.offset) for p in found.topic_partitions] == [(1, 7)]
    admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    assert topic not in listed()
    assert _refusal(lambda: admin.delete_consumer_groups([topic])[topic].result(SECONDS)) == "GROUP_ID_NOT_FOUND"


def _refusal(call: Callable[[], object]) -> str:
    with pytest.raises(KafkaException) as caught:
        call()
    name: str = caught.value.args[0].name()
    return name


def test_offsets_of_a_deleted_topic_go_with_it(raw: RawConnection, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
    body = {"group_id": topic, "topics": [{"name": topic, "partitions": rows}], "generation_id_or_member_epoch": -1}
    raw.request(OFFSET_COMMIT, 8, body)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(SECONDS)
    create_topic(bootstrap, topic)
    with consumer(bootstrap, topic) as one:
        assert one.committed([TopicPartition(topic, 0)], timeout=SECONDS)[0].offset < 0


def test_committed_offsets_never_go_back_when_the_broker_is_killed(
    start_broker: Callable[..., BrokerProcess], new_name: Callable[[], str]
) -> None:
    """Kill -9 in the middle of commits, twice: what was acknowledged is there, and nothing older."""
    broker = start_broker(port=free_port())
    topic = new_name()
    create_topic(broker.address, topic, 2)
    committing = [_Committer(broker.address, topic, partition) for partition in (0, 1)]
    for thread in committing:
        thread.start()
    for _ in range(2):
        for thread in committing:
            thread.wait_for_more(50)
        broker.kill()
        floor = [thread.acknowledged for thread in committing]
        broker.start()
        with consumer(broker.address, topic) as reader:
            places = [TopicPartition(topic, partition) for partition in (0, 1)]
            found = [place.offset for place in reader.committed(places, timeout=60)]
        assert all(offset >= least for offset, least in zip(found, floor, strict=True)), (found, floor)
    for thread in committing:
        thread.stop.set()
    for thread in committing:
        thread.join(60)
        assert thread.problem is None, thread.problem


class _Committer(threading.Thread):
    """Commits 1, 2, 3, … to one partition and notes the last one that was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.problem: str | None = None
        self.stop = threading.Event()
        self._place = (topic, partition)
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": topic, "reconnect.backoff.max.ms": 100, "log_level": 0}
        )

    def wait_for_more(self, count: int) -> None:
        target = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= target, f"{count} more commits")

    def run(self) -> None:
        while not self.stop.is_set():
            wanted = self.acknowledged + 1
            try:
                (done,) = self._consumer.commit(offsets=[TopicPartition(*self._place, wanted)], asynchronous=False)
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].name() not in (
                    "_TRANSPORT",
                    "_TIMED_OUT",
                    "_WAIT_COORD",
                ):
                    self.problem = str(error)
                    break
                continue
            if done.error is None:
                self.acknowledged = wanted
        self._consumer.close()
