"""Every option of the source: what it is read as, and what is refused, with the words of the cure."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from runnel.client.metadata import TopicPartition
from runnel.client.offsets import READ_COMMITTED
from runnel.spark.errors import OptionError
from runnel.spark.kafka_options import BrokerSettings
from runnel.spark.source_options import (
    KNOWN,
    Assign,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Edge,
    NoMatch,
    Subscribe,
    SubscribePattern,
    batch_limits,
    parse_source_options,
    stream_start,
)

MINIMUM = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
WITHOUT_STRATEGY = {"kafka.bootstrap.servers": "localhost:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = '{"t":{"0":23,"1":-1}}'
TIMES = '{"t":{"0":1000,"1":2000}}'

READ_AS: list[tuple[dict[str, str], str, Any]] = [
    ({"subscribe": " a, b ,,a"}, "strategy", Subscribe(("a", "b"))),
    ({"subscribePattern": "^a.*"}, "strategy", SubscribePattern("^a.*")),
    ({"assign": '{"t":[1,0]}'}, "strategy", Assign((T0, T1))),
    ({"startingOffsets": "Latest"}, "starting", Edge(-1)),
    ({"startingOffsets": " earliest "}, "starting", Edge(-2)),
    ({"startingOffsets": OFFSETS}, "starting", AtOffsets({T0: 23, T1: -1})),
    ({"startingOffsetsByTimestamp": TIMES}, "starting", AtTimestamps({T0: 1000, T1: 2000})),
    ({"startingTimestamp": "1234"}, "starting", AtTimestamp(1234)),
    ({"startingTimestamp": "1", "startingOffsetsByTimestamp": TIMES}, "starting", AtTimestamp(1)),
    (
        {"startingOffsetsByTimestamp": TIMES, "startingOffsets": "earliest"},
        "starting",
        AtTimestamps({T0: 1000, T1: 2000}),
    ),
    ({"startingTimestamp": "1", "startingOffsets": "earliest"}, "starting", AtTimestamp(1)),
    ({}, "starting", None),
    ({"endingOffsets": OFFSETS}, "ending", AtOffsets({T0: 23, T1: -1})),
    ({"endingOffsetsByTimestamp": TIMES}, "ending", AtTimestamps({T0: 1000, T1: 2000})),
    ({"endingTimestamp": "9"}, "ending", AtTimestamp(9)),
    ({"endingTimestamp": "9", "endingOffsetsByTimestamp": TIMES, "endingOffsets": OFFSETS}, "ending", AtTimestamp(9)),
    ({"endingOffsetsByTimestamp": TIMES, "endingOffsets": OFFSETS}, "ending", AtTimestamps({T0: 1000, T1: 2000})),
    ({}, "no_match", NoMatch.ERROR),
    ({"startingOffsetsByTimestampStrategy": "LATEST"}, "no_match", NoMatch.LATEST),
    ({}, "fail_on_data_loss", True),
    ({"failOnDataLoss": "False"}, "fail_on_data_loss", False),
    ({}, "poll_timeout_ms", 120_000),
    ({"kafkaConsumer.pollTimeoutMs": "512"}, "poll_timeout_ms", 512),
    ({}, "offset_attempts", 3),
    ({"fetchOffset.numRetries": "7"}, "offset_attempts", 7),
    ({}, "offset_retry_ms", 10),
    ({"fetchOffset.retryIntervalMs": "0"}, "offset_retry_ms", 0),
    ({}, "offsets_per_trigger_max", None),
    ({"maxOffsetsPerTrigger": "5"}, "offsets_per_trigger_max", 5),
    ({"minOffsetsPerTrigger": "5"}, "offsets_per_trigger_min", 5),
    ({}, "trigger_delay_max_ms", 900_000),
    ({"maxTriggerDelay": "30s"}, "trigger_delay_max_ms", 30_000),
    ({"maxTriggerDelay": "2 h"}, "trigger_delay_max_ms", 7_200_000),
    ({"maxTriggerDelay": "250"}, "trigger_delay_max_ms", 250),
    ({}, "partitions_min", None),
    ({"minPartitions": "8"}, "partitions_min", 8),
    ({"maxRecordsPerPartition": "100"}, "records_per_partition_max", 100),
    ({}, "include_headers", False),
    ({"includeHeaders": "true"}, "include_headers", True),
    ({}, "group_id", "spark-runnel-t"),
    ({"groupIdPrefix": "mine"}, "group_id", "mine-t"),
    ({"kafka.group.id": "g", "groupIdPrefix": "mine"}, "group_id", "g"),
    ({"kafka.group.id": "g"}, "group_id_is_custom", True),
    ({"commitOffsets": "false", "kafka.group.id": "g"}, "group_id", None),
    ({"runnel.data.dir": "/data"}, "data_dir", "/data"),
    ({}, "data_dir", None),
]

PASSED_THROUGH: list[tuple[str, str, str, Any]] = [
    ("kafka.isolation.level", "READ_COMMITTED", "fetch.isolation", READ_COMMITTED),
    ("kafka.fetch.max.bytes", "1000", "fetch.fetch_bytes_max", 1000),
    ("kafka.max.partition.fetch.bytes", "1000", "fetch.partition_bytes_max", 1000),
    ("kafka.fetch.min.bytes", "100", "fetch.min_bytes", 100),
    ("kafka.fetch.max.wait.ms", "7", "fetch.wait_ms", 7),
    ("kafka.check.crcs", "false", "fetch.check_crc", False),
    ("kafka.client.id", "me", "brokers.client_id", "me"),
    ("kafka.request.timeout.ms", "1500", "brokers.request_timeout_s", 1.5),
    ("kafka.default.api.timeout.ms", "2500", "brokers.patience_s", 2.5),
    ("kafka.receive.buffer.bytes", "65536", "brokers.receive_buffer_bytes", 65536),
    ("kafka.security.protocol", "SSL", "brokers.security", {"security.protocol": "SSL"}),
    ("kafka.max.poll.records", "500", "brokers", BrokerSettings("localhost:9092")),  # Java's own affair
]

REFUSED: list[tuple[dict[str, str], str]] = [
    ({"subscribe": "t"}, "kafka.bootstrap.servers is missing"),
    ({"kafka.bootstrap.servers": "a:b:c", "subscribe": "t"}, "kafka.bootstrap.servers: 'a:b:c' is not an address"),
    (WITHOUT_STRATEGY, "exactly one of the options subscribe, subscribePattern, assign .*none is given"),
    ({**MINIMUM, "assign": '{"t":[0]}'}, "exactly one .* subscribe and assign are given"),
    ({**WITHOUT_STRATEGY, "subscribe": " , "}, "subscribe names no topic"),
    ({**WITHOUT_STRATEGY, "subscribePattern": " "}, "subscribePattern is empty"),
    ({**WITHOUT_STRATEGY, "subscribePattern": "("}, "subscribePattern is no regular expression"),
    ({**WITHOUT_STRATEGY, "assign": "t"}, r'assign: expected e.g. \{"topicA":\[0,1\]'),
    ({**WITHOUT_STRATEGY, "assign": '{"t":0}'}, "assign: expected"),
    ({**WITHOUT_STRATEGY, "assign": '{"t":[]}'}, "assign names no partition"),
    ({**MINIMUM, "startingOffsets": "soon"}, "startingOffsets: expected e.g. latest, earliest or"),
    ({**MINIMUM, "startingOffsets": ""}, "startingOffsets: expected"),
    ({**MINIMUM, "startingOffsets": '{"t":{"x":1}}'}, "startingOffsets: expected"),
    ({**MINIMUM, "startingOffsets": '{"t":{"0":1.5}}'}, "startingOffsets: expected"),
    ({**MINIMUM, "startingOffsets": '{"t":[0]}'}, "startingOffsets: expected"),
    ({**MINIMUM, "startingOffsetsByTimestamp": "1000"}, "startingOffsetsByTimestamp: expected"),
    ({**MINIMUM, "startingTimestamp": "noon"}, "startingTimestamp is 'noon': write milliseconds"),
    ({**MINIMUM, "startingTimestamp": "-1"}, "startingTimestamp is '-1': write milliseconds"),
    ({**MINIMUM, "endingTimestamp": "-2"}, "endingTimestamp is '-2': write milliseconds"),
    ({**MINIMUM, "startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "ByTimestamp is -1 for t/0: write milliseconds"),
    ({**MINIMUM, "startingTimestamp": "9" * 25}, "startingTimestamp is '9+': write milliseconds"),
    ({**MINIMUM, "startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets: expected .*-2: earliest"),
    ({**MINIMUM, "startingOffsets": f'{{"t":{{"0":{2**63}}}}}'}, "startingOffsets: expected"),
    (
        {**MINIMUM, "kafka.fetch.max.wait.ms": "99999999999"},
        "fetch.max.wait.ms is 99999999999: write 2147483647 or less",
    ),
    (
        {**MINIMUM, "maxOffsetsPerTrigger": str(2**63)},
        "maxOffsetsPerTrigger is 9223372036854775808: write 9223372036854775807 or less",
    ),
    ({**MINIMUM, "startingOffsetsByTimestampStrategy": "first"}, "write error or latest"),
    ({**MINIMUM, "failOnDataLoss": "perhaps"}, "failondataloss is 'perhaps': write true or false"),
    ({**MINIMUM, "minPartitions": "0"}, "minPartitions is 0: write 1 or more"),
    ({**MINIMUM, "maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition is -5: write 1 or more"),
    ({**MINIMUM, "maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger is 'many': write a whole number"),
    ({**MINIMUM, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, r"minOffsetsPerTrigger \(9\) is higher"),
    ({**MINIMUM, "maxTriggerDelay": "a while"}, "maxTriggerDelay is 'a while'"),
    (
        {**MINIMUM, "kafka.auto.offset.reset": "earliest"},
        "kafka.auto.offset.reset is not supported: use .*startingOffsets",
    ),
    ({**MINIMUM, "kafka.key.deserializer": "X"}, "kafka.key.deserializer is not supported: keys are bytes"),
    ({**MINIMUM, "kafka.value.deserializer": "X"}, "kafka.value.deserializer is not supported: values are bytes"),
    ({**MINIMUM, "kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported: .*commitOffsets"),
    ({**MINIMUM, "kafka.interceptor.classes": "X"}, "kafka.interceptor.classes is not supported"),
    ({**MINIMUM, "kafka.isolation.level": "some"}, "write read_uncommitted or read_committed"),
    ({**MINIMUM, "kafka.fetch.max.bytes": "0"}, "kafka.fetch.max.bytes is 0: write 1 or more"),
    ({**MINIMUM, "startingOffset": "earliest"}, "there is no option 'startingoffset': did you mean startingOffsets"),
]

REFUSED_IN_BATCH: list[tuple[dict[str, str], str]] = [
    ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch query"),
    ({"startingOffsets": OFFSETS}, r"startingOffsets cannot be -1 \(latest\) for t/1"),
    ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest in a batch query"),
    ({"endingOffsets": '{"t":{"0":-2}}'}, r"endingOffsets cannot be -2 \(earliest\) for t/0"),
    ({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":5}}'}, "name different partitions: t/0 and t/1"),
    ({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'}, r"t/0 \(5\) lies after its end \(4\)"),
    (
        {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":4}}'},
        r"startingOffsetsByTimestamp of t/0 \(5\) lies after",
    ),
]


def with_defaults(options: dict[str, str]) -> dict[str, str]:
    strategies = {"subscribe", "subscribePattern", "assign"}
    return {**(WITHOUT_STRATEGY if strategies & options.keys() else MINIMUM), **options}


@pytest.mark.parametrize(("options", "field", "value"), READ_AS)
def test_read_as(options: dict[str, str], field: str, value: Any) -> None:
    assert getattr(parse_source_options(with_defaults(options)), field) == value


def test_the_table_covers_every_option() -> None:
    covered = {name.lower() for options, _, _ in READ_AS for name in options}
    assert covered >= {name.lower() for name in KNOWN}


@pytest.mark.parametrize("change_case", [str.lower, str.upper])
def test_names_are_case_insensitive(change_case: Any) -> None:
    for options, field, value in READ_AS:
        changed = {change_case(name): text for name, text in with_defaults(options).items()}
        assert getattr(parse_source_options(changed), field) == value


@pytest.mark.parametrize(("name", "text", "path", "value"), PASSED_THROUGH)
def test_passed_through(name: str, text: str, path: str, value: Any) -> None:
    found: Any = parse_source_options({**MINIMUM, name: text})
    for part in path.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize(("options", "complaint"), REFUSED)
def test_refused(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse_source_options(options)


@pytest.mark.parametrize(("options", "complaint"), REFUSED_IN_BATCH)
def test_refused_in_batch(options: dict[str, str], complaint: str) -> None:
    parsed = parse_source_options(with_defaults(options))
    with pytest.raises(OptionError, match=complaint):
        batch_limits(parsed)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    text = {"endingOffsets": "latest", "endingOffsetsByTimestamp": TIMES, "endingTimestamp": "1"}[name]
    with pytest.raises(OptionError, match=r"has no end: .*availableNow"):
        stream_start(parse_source_options({**MINIMUM, name: text}))


def test_defaults_of_batch_and_stream() -> None:
    parsed = parse_source_options(MINIMUM)
    assert batch_limits(parsed) == (Edge(-2), Edge(-1))
    assert stream_start(parsed) == Edge(-1)


def test_options_travel_to_executors() -> None:
    parsed = parse_source_options({**MINIMUM, "startingOffsets": OFFSETS, "kafka.sasl.mechanism": "PLAIN"})
    assert pickle.loads(pickle.dumps(parsed)) == parsed


def test_options_of_others_are_left_alone() -> None:
    parse_source_options({**MINIMUM, "path": "x", "checkpointLocation": "/tmp", "topicName": "y"})
