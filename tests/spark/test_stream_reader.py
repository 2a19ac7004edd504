"""A stream's offsets from trigger to trigger, by the class that Spark calls, on a real broker, without Spark itself."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from harness.conditions import wait_until
from harness.proxy import CuttingProxy
from harness.topics import create_topic
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition as Target
from runnel.spark.brokers import commits as commits_module
from runnel.spark.brokers.cluster import Cluster
from runnel.spark.brokers.commits import GroupCommits
from runnel.spark.errors import DataLoss
from runnel.spark.kafka_options import BrokerSettings
from runnel.spark.planning import tasks as tasks_module
from runnel.spark.stream_reader import StreamReader
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from spark.records import BASE_MS, numbered, produce, read, stream_reader, values
from spark.test_batch_reader import delete_records, delete_topic

ALL = ReadAllAvailable()


@pytest.fixture
def topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=2)


@pytest.fixture
def open_reader(bootstrap: str) -> Any:
    opened: list[StreamReader] = []

    def make(**options: str) -> StreamReader:
        opened.append(stream_reader(bootstrap, **options))
        return opened[-1]

    yield make
    for reader in opened:
        reader.stop()


def committed(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=30)
        return int(found.offset)
    finally:
        consumer.close()


def trigger(reader: StreamReader, start: Any, limit: Any = None) -> tuple[list[Any], Any]:
    """One micro-batch as Spark runs it, offsets going through JSON as they do."""
    end = json.loads(json.dumps(reader.latestOffset(start, limit or reader.getDefaultReadLimit())))
    executor: StreamReader = pickle.loads(pickle.dumps(reader))
    return values(read(executor, reader.partitions(start, end))), end


def test_a_new_query_starts_at_the_end_by_default_or_where_it_is_told(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    produce(bootstrap, topic, numbered(3))
    assert open_reader(subscribe=topic).initialOffset() == {topic: {"0": 3, "1": 0}}
    assert open_reader(subscribe=topic, startingOffsets="earliest").initialOffset() == {topic: {"0": 0, "1": 0}}
    assert open_reader(
        subscribe=topic, startingTimestamp=str(BASE_MS + 1), startingOffsetsByTimestampStrategy="latest"
    ).initialOffset() == {topic: {"0": 1, "1": 0}}


def test_triggers_follow_each_other_without_gap_or_repeat(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    reader = open_reader(subscribe=topic, startingOffsets="earliest")
    position: Any = reader.initialOffset()
    seen: list[bytes] = []
    for round_number in range(3):
        produce(bootstrap, topic, [*numbered(5, 0, 10 * round_number), *numbered(5, 1, 10 * round_number + 5)])
        rows, position = trigger(reader, position)
        seen += rows
    assert sorted(map(int, seen)) == list(range(30))
    rows, unchanged = trigger(reader, position)
    assert rows == []
    assert json.dumps(unchanged) == json.dumps(position), "Spark compares the text"
    assert reader.reportLatestOffset() == {topic: {"0": 15, "1": 15}}


def test_max_offsets_per_trigger(bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]) -> None:
    produce(bootstrap, topic, [*numbered(90), *numbered(10, 1)])
    reader = open_reader(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    start = reader.initialOffset()
    rows, end = trigger(reader, start)
    assert end == {topic: {"0": 9, "1": 1}}
    assert len(rows) == 10
    assert reader.reportLatestOffset() == {topic: {"0": 90, "1": 10}}, "what waits is reported, not what was taken"
    assert reader.latestOffset(start, ALL) == {topic: {"0": 90, "1": 10}}, "Trigger.Once asks for everything"


@pytest.mark.parametrize(("options", "tasks"), [({}, 1), ({"minPartitions": "4"}, 4), ({"minPartitions": "1"}, 2)])
def test_partitions_are_whole_unless_more_tasks_are_asked_for(
    bootstrap: str,
    topic: str,
    open_reader: Callable[..., StreamReader],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    tasks: int,
) -> None:
    """Tasks run side by side: halves of a partition would reach another topic in any order."""
    monkeypatch.setattr(tasks_module, "TASK_RECORDS_MIN", 10)
    monkeypatch.setattr(tasks_module, "TASK_RECORDS_MAX", 10)
    produce(bootstrap, topic, [*numbered(40), *numbered(40, 1)])
    reader = open_reader(subscribe=topic, startingOffsets="earliest", **options)
    start = reader.initialOffset()
    assert len(reader.partitions(start, reader.latestOffset(start, ALL))) == tasks


def test_min_offsets_per_trigger(bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]) -> None:
    reader = open_reader(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    assert reader.getDefaultReadLimit() == ReadMinRows(10)
    start = reader.initialOffset()
    produce(bootstrap, topic, numbered(2))
    rows, position = trigger(reader, start)
    assert rows == [b"0", b"1"], "the first trigger does not wait"
    produce(bootstrap, topic, numbered(9))
    assert trigger(reader, position) == ([], position)
    produce(bootstrap, topic, numbered(1, 1))
    rows, _ = trigger(reader, position)
    assert len(rows) == 10


def test_both_limits(bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]) -> None:
    limits = {"minOffsetsPerTrigger": "4", "maxOffsetsPerTrigger": "6", "maxTriggerDelay": "1h"}
    reader = open_reader(subscribe=topic, startingOffsets="earliest", **limits)
    _, position = trigger(reader, reader.initialOffset())
    produce(bootstrap, topic, numbered(3))
    assert trigger(reader, position) == ([], position)
    produce(bootstrap, topic, numbered(20))
    rows, _ = trigger(reader, position)
    assert len(rows) == 6


def test_available_now_ends_at_what_was_there(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    produce(bootstrap, topic, numbered(25))
    options = {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "8", "maxTriggerDelay": "1h"}
    reader = open_reader(subscribe=topic, startingOffsets="earliest", **options)
    reader.prepareForTriggerAvailableNow()
    position: Any = reader.initialOffset()
    seen: list[Any] = []
    for _ in range(4):
        rows, position = trigger(reader, position)
        seen.append(len(rows))
        produce(bootstrap, topic, numbered(1))  # arrives too late
    assert seen == [10, 10, 5, 0]
    assert position == {topic: {"0": 25, "1": 0}}


def test_progress_is_committed_to_a_group(bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]) -> None:
    produce(bootstrap, topic, numbered(5))
    reader = open_reader(subscribe=topic, startingOffsets="earliest")
    _, position = trigger(reader, reader.initialOffset())
    assert committed(bootstrap, f"spark-runnel-{topic}", topic) == 0, "what has not been processed is not committed"
    reader.commit(position)
    assert committed(bootstrap, f"spark-runnel-{topic}", topic) == 5
    produce(bootstrap, topic, numbered(2))
    _, position = trigger(reader, position)
    trigger(reader, position)  # Spark asks on only when the trigger before is done
    assert committed(bootstrap, f"spark-runnel-{topic}", topic) == 7


def test_offsets_of_a_quiet_partition_are_committed_again_before_they_expire(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(bootstrap, topic, numbered(3))
    reader = open_reader(subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": f"quiet-{topic}"})
    _, position = trigger(reader, reader.initialOffset())
    reader.commit(position)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for forgotten in admin.delete_consumer_groups([f"quiet-{topic}"]).values():
        forgotten.result(30)  # as a broker does in time
    reader.latestOffset(position, ReadAllAvailable())
    assert committed(bootstrap, f"quiet-{topic}", topic) < 0, "it was committed without need"
    monkeypatch.setattr(commits_module, "RENEWAL_S", 0.0)
    reader.latestOffset(position, ReadAllAvailable())
    assert committed(bootstrap, f"quiet-{topic}", topic) == 3


def test_a_trigger_does_not_wait_for_the_commit_of_the_one_before(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    group, answering = f"spark-runnel-{topic}", threading.Event()

    def hold(api_key: int, number: int) -> bool:
        if api_key == ApiKey.OFFSET_COMMIT and number == 2:
            assert answering.wait(30)
        return False

    with CuttingProxy(bootstrap, hold) as proxy:
        reader = open_reader(subscribe=topic, startingOffsets="earliest", **{"kafka.bootstrap.servers": proxy.address})
        position: Any = reader.initialOffset()
        for expected in (1, 2):
            produce(bootstrap, topic, numbered(1))
            position = reader.latestOffset(position, ALL)  # of the second, while the broker's answer is held
            assert position == {topic: {"0": expected, "1": 0}}
        answering.set()
        for _ in range(2):
            produce(bootstrap, topic, numbered(1))
            _, position = trigger(reader, position)
            reader.commit(position)
            assert committed(bootstrap, group, topic) == position[topic]["0"]
        assert proxy.requests_by_key[ApiKey.FIND_COORDINATOR] == 1
        reader.stop()


def test_a_commit_whose_answer_is_lost_is_sent_again(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    with CuttingProxy(bootstrap, lambda api_key, _: api_key == ApiKey.OFFSET_COMMIT and not proxy.cuts) as proxy:
        proxy.cuts = 1
        reader = open_reader(subscribe=topic, startingOffsets="earliest", **{"kafka.bootstrap.servers": proxy.address})
        position: Any = reader.initialOffset()
        reader.commit(position)
        proxy.cuts = 0
        for _ in range(3):
            produce(bootstrap, topic, numbered(1))
            _, position = trigger(reader, position)
        assert proxy.cuts == 1
        assert trigger(reader, position) == ([], position)
        assert committed(bootstrap, f"spark-runnel-{topic}", topic) == 3
        reader.stop()


def test_the_group_can_be_named_or_left_out(
    bootstrap: str, topic: str, new_name: Callable[[], str], open_reader: Callable[..., StreamReader]
) -> None:
    group, silent = new_name(), new_name()
    named = open_reader(subscribe=topic, **{"kafka.group.id": group})
    named.commit({topic: {"0": 0, "1": 0}})
    assert committed(bootstrap, group, topic) == 0
    open_reader(subscribe=topic, commitOffsets="false", **{"kafka.group.id": silent}).commit({topic: {"0": 0}})
    assert committed(bootstrap, silent, topic) == -1001, "librdkafka's word for none"


def test_a_group_with_members_refuses_commits_and_the_query_goes_on(
    bootstrap: str, topic: str, new_name: Callable[[], str], open_reader: Callable[..., StreamReader]
) -> None:
    group = new_name()
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    member.subscribe([topic])
    try:
        wait_until(lambda: (member.poll(0.1), member.assignment())[1], "the member has joined")
        produce(bootstrap, topic, numbered(3))
        reader = open_reader(subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": group})
        rows, position = trigger(reader, reader.initialOffset())
        reader.commit(position)
        assert rows == [b"0", b"1", b"2"]
    finally:
        member.close()


def test_a_group_without_coordinator_is_waited_for_once(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at every trigger: on a cluster with too few brokers for its offsets topic, no group ever has one."""
    asked: list[str] = []

    def refuse(cluster: Any, group_id: str) -> int:
        asked.append(group_id)
        raise refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group '{group_id}'")

    monkeypatch.setattr(commits_module, "COMMIT_PATIENCE_S", 0.2)
    reader = open_reader(subscribe=topic)
    with monkeypatch.context() as without:
        without.setattr(commits_module, "_coordinator_id", refuse)
        reader.commit({topic: {"0": 0}})
        assert len(asked) > 1
        asked.clear()
        reader.commit({topic: {"0": 0}})
        assert len(asked) == 1
    reader.commit({topic: {"0": 0}})
    assert committed(bootstrap, f"spark-runnel-{topic}", topic) == 0


def test_a_coordinator_that_cannot_be_asked_holds_up_no_query(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However patient the query is with its brokers, a commit has a patience of its own."""
    monkeypatch.setattr(commits_module, "COMMIT_PATIENCE_S", 0.0)
    produce(bootstrap, topic, numbered(3))
    with CuttingProxy(bootstrap, lambda api_key, _: api_key == ApiKey.FIND_COORDINATOR) as proxy:
        reader = open_reader(subscribe=topic, startingOffsets="earliest", **{"kafka.bootstrap.servers": proxy.address})
        rows, position = trigger(reader, reader.initialOffset())
        assert (rows, position) == ([b"0", b"1", b"2"], {topic: {"0": 3, "1": 0}})
        assert proxy.cuts == 1
        reader.stop()


def test_a_trigger_that_fails_does_not_commit_first(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    with CuttingProxy(bootstrap, lambda api_key, _: api_key == ApiKey.LIST_OFFSETS and bool(proxy.cuts)) as proxy:
        options = {"kafka.bootstrap.servers": proxy.address, "fetchOffset.numRetries": "1"}
        reader = open_reader(subscribe=topic, **options, **{"kafka.default.api.timeout.ms": "0"})
        position = reader.initialOffset()
        proxy.cuts = 1
        with pytest.raises(ClientError, match="lost the connection"):
            reader.latestOffset(position, ALL)
        assert ApiKey.FIND_COORDINATOR not in proxy.requests_by_key
        proxy.cuts = 0
        reader.stop()


def test_only_what_the_group_has_taken_counts_as_committed(
    bootstrap: str, new_name: Callable[[], str], topic: str
) -> None:
    missing, group = new_name(), new_name()
    with Cluster(BrokerSettings(bootstrap)) as cluster:
        commits = GroupCommits(cluster, group)
        offsets = {Target(topic, 0): 0, Target(topic, 7): 0, Target(missing, 0): 0}
        commits.start(offsets)
        assert commits._committed == {Target(topic, 0): 0}
        create_topic(bootstrap, missing)
        cluster.refresh([missing])
        commits.start(offsets)
        commits.finish()
        assert commits._committed == {Target(topic, 0): 0, Target(missing, 0): 0}
    assert committed(bootstrap, group, missing) == 0


def test_a_checkpoint_of_sparks_connector_is_read(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    produce(bootstrap, topic, numbered(5))
    theirs = json.loads(f'{{"{topic}":{{"1":0,"0":3}}}}')
    rows, end = trigger(open_reader(subscribe=topic), theirs)
    assert rows == [b"3", b"4"]
    assert end == {topic: {"0": 5, "1": 0}}


def test_the_first_trigger_after_a_restart_may_have_been_planned_before(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    """Spark then asks for the tasks of the offsets in its log, and for nothing else before."""
    produce(bootstrap, topic, numbered(5))
    reader = open_reader(subscribe=topic)
    tasks = reader.partitions({topic: {"0": 1, "1": 0}}, {topic: {"0": 4, "1": 0}})
    assert values(read(reader, tasks)) == [b"1", b"2", b"3"]


# The first batch, whose start Spark asks for, and does not note ---------------------------------------------------

MIXED = '{"TOPIC":{"0":-1,"1":-2}}'


@pytest.mark.parametrize("starting", ["latest", MIXED])
def test_records_written_while_the_first_batch_is_planned(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader], starting: str
) -> None:
    """Spark asks where to start before it asks for the end, and once more after."""
    reader = open_reader(subscribe=topic, startingOffsets=starting.replace("TOPIC", topic))
    start = reader.initialOffset()
    produce(bootstrap, topic, numbered(3))
    end = reader.latestOffset(start, ALL)
    assert reader.reportLatestOffset() == {topic: {"0": 3, "1": 0}}
    produce(bootstrap, topic, numbered(3, 0, 3))
    assert reader.initialOffset() == start
    rows = values(read(reader, reader.partitions(start, end)))
    following, _ = trigger(reader, end)
    assert rows + following == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("starting", ["latest", MIXED])
def test_a_first_batch_that_is_run_again_after_a_restart(
    bootstrap: str, new_name: Callable[[], str], open_reader: Callable[..., StreamReader], starting: str
) -> None:
    """By then the end is another one, and topics have come: while the batch was planned, and later."""
    prefix = new_name()
    name = f"{prefix}-a"

    def add(suffix: str, number: int) -> None:
        if starting == "latest":  # a list of offsets has to name all partitions
            create_topic(bootstrap, f"{prefix}-{suffix}")
            produce(bootstrap, f"{prefix}-{suffix}", numbered(1, 0, number))

    create_topic(bootstrap, name, 2)
    produce(bootstrap, name, [*numbered(3), *numbered(2, 1)])
    options = {"subscribePattern": f"^{prefix}-.", "startingOffsets": starting.replace("TOPIC", name)}
    first = open_reader(**options)
    start = first.initialOffset()
    produce(bootstrap, name, numbered(4, 0, 3))
    add("b", 12)
    end = first.latestOffset(start, ALL)
    planned = values(read(first, first.partitions(start, end)))
    produce(bootstrap, name, numbered(5, 0, 7))
    add("c", 13)
    restarted = open_reader(**options)
    assert values(read(restarted, restarted.partitions(restarted.initialOffset(), end))) == planned
    rows, _ = trigger(restarted, end)
    assert values_as_numbers(rows) == list(range(3, 14 if starting == "latest" else 12))


# What changes under a stream ------------------------------------------------------------------------------------


def test_added_partitions_are_read_from_their_beginning(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    reader = open_reader(subscribe=topic, maxOffsetsPerTrigger="100")
    _, position = trigger(reader, reader.initialOffset())
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_partitions([NewPartitions(topic, 3)]).values():
        done.result()
    wait_until(lambda: len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 3, "the new partition")
    produce(bootstrap, topic, numbered(4, 2))
    rows, position = trigger(reader, position)
    assert rows == [b"0", b"1", b"2", b"3"]
    assert position == {topic: {"0": 0, "1": 0, "2": 4}}


def test_topics_that_begin_to_match_a_pattern_are_read_from_their_beginning(
    bootstrap: str, new_name: Callable[[], str], open_reader: Callable[..., StreamReader]
) -> None:
    prefix = new_name()
    create_topic(bootstrap, f"{prefix}-a")
    reader = open_reader(subscribePattern=f"^{prefix}-.*")
    _, position = trigger(reader, reader.initialOffset())
    create_topic(bootstrap, f"{prefix}-b")
    produce(bootstrap, f"{prefix}-b", numbered(2))
    rows, position = trigger(reader, position)
    assert rows == [b"0", b"1"]
    assert position == {f"{prefix}-a": {"0": 0}, f"{prefix}-b": {"0": 2}}


@pytest.mark.parametrize("fail", ["true", "false"])
def test_deleted_topics(
    bootstrap: str, new_name: Callable[[], str], open_reader: Callable[..., StreamReader], fail: str
) -> None:
    prefix = new_name()
    for name in ("a", "b"):
        create_topic(bootstrap, f"{prefix}-{name}")
    reader = open_reader(subscribePattern=f"^{prefix}-.*", startingOffsets="earliest", failOnDataLoss=fail)
    position: Any = reader.initialOffset()
    delete_topic(bootstrap, f"{prefix}-a")
    produce(bootstrap, f"{prefix}-b", numbered(2))
    if fail == "true":
        with pytest.raises(DataLoss, match=rf"PARTITIONS_DELETED\].*{prefix}-a/0 have been deleted"):
            trigger(reader, position)
    else:
        rows, position = trigger(reader, position)
        assert rows == [b"0", b"1"]
        assert position == {f"{prefix}-b": {"0": 2}}


@pytest.mark.parametrize("fail", ["true", "false"])
def test_expired_records(bootstrap: str, topic: str, open_reader: Callable[..., StreamReader], fail: str) -> None:
    reader = open_reader(subscribe=topic, startingOffsets="earliest", failOnDataLoss=fail)
    position: Any = reader.initialOffset()
    produce(bootstrap, topic, numbered(10))
    delete_records(bootstrap, topic, 0, 4)
    if fail == "true":
        with pytest.raises(DataLoss, match=rf"Offsets 0 to 3 of {topic}/0 could not be read"):
            trigger(reader, position)
    else:
        rows, _ = trigger(reader, position)
        assert values_as_numbers(rows) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_created_anew_with_fewer_records(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader], fail: str
) -> None:
    produce(bootstrap, topic, numbered(10))
    reader = open_reader(subscribe=topic, startingOffsets="earliest", failOnDataLoss=fail)
    _, position = trigger(reader, reader.initialOffset())
    delete_topic(bootstrap, topic)
    create_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, numbered(3))
    if fail == "true":
        with pytest.raises(DataLoss, match=rf"PARTITION_OFFSET_CHANGED\].*{topic}/0 offset was changed from 10 to 3"):
            trigger(reader, position)
    else:
        rows, position = trigger(reader, position)
        assert rows == [], "as in Spark's connector: the new topic is read from where its end is found"
        produce(bootstrap, topic, numbered(1, first=99))
        rows, _ = trigger(reader, position)
        assert rows == [b"99"]


def test_a_topic_created_anew_with_as_many_records(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    """Its offsets look as if nothing had happened; its id tells. Spark's connector reads on as if it were the same."""
    produce(bootstrap, topic, numbered(3))
    reader = open_reader(subscribe=topic, startingOffsets="earliest")
    _, position = trigger(reader, reader.initialOffset())
    delete_topic(bootstrap, topic)
    create_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, numbered(8))
    with pytest.raises(DataLoss, match=rf"Topic {topic} was deleted and created anew"):
        trigger(reader, position)


def test_a_topic_created_anew_while_there_was_nothing_to_read(
    bootstrap: str, topic: str, open_reader: Callable[..., StreamReader]
) -> None:
    """Spark plans no batch then, and has not asked for any since the query started."""
    produce(bootstrap, topic, numbered(3))
    new = open_reader(subscribe=topic)
    position = new.initialOffset()
    restarted = open_reader(subscribe=topic)
    assert restarted.latestOffset(position, ReadAllAvailable()) == position
    delete_topic(bootstrap, topic)
    create_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, numbered(8))
    for reader in (new, restarted):
        with pytest.raises(DataLoss, match=rf"Topic {topic} was deleted and created anew"):
            trigger(reader, position)


def values_as_numbers(rows: list[bytes]) -> list[int]:
    return [int(row) for row in rows]
