"""Kafka's own command-line tools, each as the process that `bin/kafka-*.sh` would start."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable

import pytest

from harness.batches import encode_batch
from harness.process import BrokerProcess
from harness.raw import RawConnection
from harness.topics import create_topic, read_all
from java.jars import Java

pytestmark = pytest.mark.java

NewTopic = Callable[..., str]
TOOLS = "org.apache.kafka.tools"


def feature(name: str) -> pytest.MarkDecorator:
    return pytest.mark.compat(client="java tools", feature=name)


def produce(bootstrap: str, topic: str, values: list[bytes | None], **options: str) -> None:
    with RawConnection(bootstrap) as connection:
        partitions = [{"index": 0, "records": encode_batch(values, **options)}]
        body = {"acks": -1, "timeout": 30_000, "topic_data": [{"name": topic, "partition_data": partitions}]}
        assert connection.request(0, 9, body).responses[0].partition_responses[0].error_code == 0


@feature("kafka-topics")
def test_topics(java: Java, bootstrap: str, new_name: Callable[[], str]) -> None:
    name = new_name()

    def topics(*arguments: str) -> str:
        return java.run(f"{TOOLS}.TopicCommand", "--bootstrap-server", bootstrap, *arguments).check()

    assert f"Created topic {name}." in topics(
        "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=777"
    )
    described = topics("--describe", "--topic", name)
    assert "PartitionCount: 2" in described
    assert "retention.ms=777" in described
    topics("--alter", "--topic", name, "--partitions", "3")
    assert name in topics("--list").splitlines()
    assert "PartitionCount: 3" in topics("--describe", "--topic", name)
    topics("--delete", "--topic", name)
    assert name not in topics("--list").splitlines()


@feature("kafka-topics")
def test_topics_says_what_is_wrong(java: Java, bootstrap: str, new_topic: NewTopic) -> None:
    arguments = ("--bootstrap-server", bootstrap, "--create", "--topic", new_topic())
    done = java.run(f"{TOOLS}.TopicCommand", *arguments)
    assert done.code != 0
    assert "already exists" in done.stdout


@feature("kafka-configs")
def test_configs(java: Java, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic()

    def configs(*arguments: str) -> str:
        where = ("--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", name)
        return java.run("kafka.admin.ConfigCommand", *where, *arguments).check()

    configs("--alter", "--add-config", "retention.bytes=5,cleanup.policy=[compact,delete]")
    described = configs("--describe")
    assert "retention.bytes=5" in described
    assert "cleanup.policy=compact,delete" in described
    configs("--alter", "--delete-config", "retention.bytes")
    everything = configs("--describe", "--all")
    assert "retention.bytes=-1 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.bytes=-1}" in everything


@feature("kafka-get-offsets")
def test_get_offsets(java: Java, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic(partitions=2)
    produce(bootstrap, name, [b"a", b"b"])
    for time, expected in (("latest", 2), ("earliest", 0), ("max-timestamp", 1)):
        arguments = ("--bootstrap-server", bootstrap, "--topic", name, "--time", time)
        lines = java.run(f"{TOOLS}.GetOffsetShell", *arguments).check().splitlines()
        assert f"{name}:0:{expected}" in lines


@feature("kafka-delete-records")
def test_delete_records(java: Java, bootstrap: str, new_topic: NewTopic, tmp_path: object) -> None:
    name = new_topic()
    produce(bootstrap, name, [b"a", b"b", b"c"])
    plan = tmp_path / "plan.json"  # type: ignore[operator]
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 2}]}))
    arguments = ("--bootstrap-server", bootstrap, "--offset-json-file", str(plan))
    said = java.run(f"{TOOLS}.DeleteRecordsCommand", *arguments).check()
    assert f"partition: {name}-0\tlow_watermark: 2" in said
    assert [message.offset() for message in read_all(bootstrap, name)] == [2]


@feature("kafka-log-dirs")
def test_log_dirs(java: Java, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic()
    produce(bootstrap, name, [b"x" * 1000])
    arguments = ("--bootstrap-server", bootstrap, "--describe", "--topic-list", name)
    said = java.run(f"{TOOLS}.LogDirsCommand", *arguments).check()
    found = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    (directory,) = found["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert directory["partitions"][0]["partition"] == f"{name}-0"
    assert directory["partitions"][0]["size"] > 1000


@feature("kafka-broker-api-versions")
def test_broker_api_versions(java: Java, bootstrap: str) -> None:
    said = java.run(f"{TOOLS}.BrokerApiVersionsCommand", "--bootstrap-server", bootstrap).check()
    assert bootstrap in said
    for line in ("Produce(0): 0 to 13 [usable: 13]", "Fetch(1): 4 to 18 [usable: 18]", "Metadata(3): 0 to 13"):
        assert line in said


@feature("kafka-cluster")
def test_cluster_id(java: Java, bootstrap: str) -> None:
    said = java.run(f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", bootstrap).check()
    assert said.startswith("Cluster ID: ")
    assert len(said.split()[-1]) == 22  # a Kafka uuid in base64


@feature("kafka-producer-perf-test")
def test_producer_performance(java: Java, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic()
    arguments = ("--topic", name, "--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    said = java.run(f"{TOOLS}.ProducerPerformance", *arguments, "--bootstrap-server", bootstrap).check()
    assert "5000 records sent" in said
    assert len(read_all(bootstrap, name)) == 5000


@feature("verifiable producer")
def test_verifiable_producer(java: Java, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic()
    arguments = ("--bootstrap-server", bootstrap, "--topic", name, "--max-messages", "50")
    said = java.run(f"{TOOLS}.VerifiableProducer", *arguments).check()
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert next(event for event in events if event["name"] == "tool_data")["acked"] == 50
    acked = sorted(event["offset"] for event in events if event["name"] == "producer_send_success")
    assert acked == list(range(50))


@feature("kafka-console-producer and -consumer")
def test_console_producer_and_consumer(java: Java, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic()
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    arguments = ("--bootstrap-server", bootstrap, "--topic", name, *keys)
    java.run(f"{TOOLS}.ConsoleProducer", *arguments, stdin="a:1\nb:2\nc:3\n").check()
    place = ("--topic", name, "--partition", "0", "--offset", "1", "--max-messages", "2")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    arguments = ("--bootstrap-server", bootstrap, *place, *shown)
    said = java.run(f"{TOOLS}.consumer.ConsoleConsumer", *arguments).check()
    assert said.splitlines()[:2] == ["Offset:1\tb\t2", "Offset:2\tc\t3"]


@feature("kafka-dump-log")
def test_dump_log(java: Java, start_broker: Callable[..., BrokerProcess]) -> None:
    """Apache Kafka's dumper reads our segments and both indexes, and finds nothing to complain about."""
    broker = start_broker()
    create_topic(broker.address, "t", configs={"segment.bytes": "1048576", "index.interval.bytes": "4096"})
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    noise = random.Random(7)
    for number in range(50):
        values: list[bytes | None] = [noise.randbytes(7000) + b"." * 1000 for _ in range(10)]
        produce(broker.address, "t", values, compression=codecs[number % 5])
    assert broker.terminate() == 0
    files = sorted((broker.data_dir / "t-0").glob("0*"))
    kinds = Counter(path.suffix for path in files)
    assert kinds[".log"] == kinds[".index"] == kinds[".timeindex"] >= 3
    wanted = [path for path in files if path.suffix in (".log", ".index", ".timeindex", ".snapshot")]
    arguments = ("--deep-iteration", "--files", ",".join(str(path) for path in wanted))
    said = java.run(f"{TOOLS}.DumpLogSegments", *arguments).check()
    assert said.count("| offset:") == 500
    assert said.count("isvalid: true") == 50
    for codec in codecs:
        assert said.count(f"compresscodec: {codec} ") == 10
    for complaint in ("isvalid: false", "Mismatches", "mismatch", "corrupt", "Could not", "Exception"):
        assert complaint not in said, said
