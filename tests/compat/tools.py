"""Apache Kafka's command-line tools against a broker: each as the process that its script would start.

In: Java and Kafka's jars, a broker's address. Out: for each tool the command lines, exit codes and what was printed,
and a verdict. Every check is about what the tool said, or about what another client then finds.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka_jars import KafkaUnavailable, java_executable, kafka_libs

from clients.drivers import Committed, Sent
from clients.drivers.confluent_driver import ConfluentDriver
from compat.columns import Unavailable, tool
from java.jars import JVM_FLAGS

TOOL_SECONDS = 180.0
SHOWN_NAME = "orders"  # in the card, for the topic or group of a tool
_TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-groups": f"{_TOOLS}.GroupsCommand",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-features": f"{_TOOLS}.FeatureCommand",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-e2e-latency": f"{_TOOLS}.EndToEndLatency",
}


class Call(NamedTuple):
    """One command line, as a user would type it, and how it ended."""

    command: str
    code: int
    said: str


class ToolCell(NamedTuple):
    """What one tool did, and whether that was right."""

    result: str
    detail: str
    calls: list[Call]


class Bench:
    """One tool at work: runs it, and remembers every call for the card."""

    def __init__(self, name: str, bootstrap: str, prefix: str, folder: Path) -> None:
        self.topic = f"{prefix}-{re.sub('[^a-z0-9]+', '-', name.lower())}"
        self.bootstrap = bootstrap
        self.calls: list[Call] = []
        self._folder = folder

    def run(self, script: str, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """What the tool printed; it must end with the code."""
        where = ("--bootstrap-server", self.bootstrap)
        if script == "kcat":
            return self._call("kcat", [tool("kcat"), "-b", self.bootstrap, *arguments], stdin, code)
        command = [*_java(), CLASSES[script], *_placed(script, arguments, where)]
        return self._call(f"{script}.sh", command, stdin, code)

    def _call(self, shown: str, command: list[str], stdin: str, code: int) -> str:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False, cwd=self._folder
        )
        start = next(index for index, word in enumerate(command) if word in CLASSES.values() or word.endswith("kcat"))
        line = " ".join([shown, *(_quoted(word) for word in command[start + 1 :])])
        self.calls.append(Call(self._named(line), done.returncode, self._named(done.stdout)))
        if done.returncode != code:
            raise AssertionError(f"exit code {done.returncode}: {done.stdout[-1000:]} {done.stderr[-2000:]}")
        return done.stdout

    def _named(self, text: str) -> str:
        """As it would look in a user's terminal."""
        return text.replace(self.bootstrap, "HOST:PORT").replace(self.topic, SHOWN_NAME)

    def file(self, name: str, content: object) -> str:
        """A JSON file beside the tool, named without its folder."""
        (self._folder / name).write_text(json.dumps(content))
        return name

    @property
    def client(self) -> ConfluentDriver:
        return ConfluentDriver(self.bootstrap)

    def fill(self, count: int, partitions: int = 1) -> None:
        """A topic with numbered records in each of its partitions."""
        self.client.admin.create_topic(self.topic, partitions)
        records = [
            Sent(str(number).encode(), partition=index) for index in range(partitions) for number in range(count)
        ]
        self.client.produce(self.topic, records)


def _java() -> list[str]:
    try:
        return [java_executable(), *JVM_FLAGS, "-cp", f"{kafka_libs(fetch=False)}/*"]
    except KafkaUnavailable as reason:
        raise Unavailable(str(reason)) from None


def _placed(script: str, arguments: tuple[str, ...], where: tuple[str, str]) -> tuple[str, ...]:
    """The broker's address goes after a sub-command's name, if there is one."""
    if script in ("kafka-metadata-quorum", "kafka-features", "kafka-transactions"):
        return (*where, *arguments)
    head = 0 if arguments[:1] and arguments[0].startswith("-") else 1
    return (*arguments[:head], *where, *arguments[head:])


def _quoted(word: str) -> str:
    return f"'{word}'" if re.search(r"[\s*|]", word) else word


def expect(said: str, *patterns: str) -> None:
    for pattern in patterns:
        if not re.search(pattern, said, re.MULTILINE):
            raise AssertionError(f"{pattern!r} is not in what it said: {said[:1500]}")


SCENARIOS: dict[str, Callable[[Bench], None]] = {}


def scenario(name: str) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    def register(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
        SCENARIOS[name] = function
        return function

    return register


def run_tool(name: str, bootstrap: str, prefix: str, folder: Path) -> ToolCell:
    bench = Bench(name, bootstrap, prefix, folder)
    try:
        SCENARIOS[name](bench)
    except Unavailable as reason:
        return ToolCell("not run", str(reason), bench.calls)
    except Exception as problem:
        return ToolCell("FAIL", f"{type(problem).__name__}: {problem}", bench.calls)
    return ToolCell("ok", "", bench.calls)


# ---- topics, configs, groups


@scenario("kafka-topics")
def topics(bench: Bench) -> None:
    name = ("--topic", bench.topic)
    made = bench.run("kafka-topics", "--create", *name, "--partitions", "2", "--config", "retention.ms=777000")
    expect(made, f"^Created topic {re.escape(bench.topic)}\\.$")
    bench.run("kafka-topics", "--alter", *name, "--partitions", "3")
    expect(bench.run("kafka-topics", "--describe", *name), "PartitionCount: 3", "retention.ms=777000", "Leader: [0-9]")
    expect(bench.run("kafka-topics", "--list"), f"^{re.escape(bench.topic)}$")
    expect(bench.run("kafka-topics", "--create", *name, code=1), "already exists")
    bench.run("kafka-topics", "--delete", *name)
    if bench.topic in bench.run("kafka-topics", "--list").splitlines():
        raise AssertionError("the topic is still listed")


@scenario("kafka-configs")
def configs(bench: Bench) -> None:
    bench.client.admin.create_topic(bench.topic)
    name = ("--entity-type", "topics", "--entity-name", bench.topic)
    bench.run("kafka-configs", "--alter", *name, "--add-config", "retention.bytes=5000,cleanup.policy=[compact,delete]")
    expect(bench.run("kafka-configs", "--describe", *name), "retention.bytes=5000", "cleanup.policy=compact,delete")
    bench.run("kafka-configs", "--alter", *name, "--delete-config", "retention.bytes")
    default = r"retention.bytes=-1 sensitive=false synonyms=\{DEFAULT_CONFIG:log.retention.bytes=-1\}"
    expect(bench.run("kafka-configs", "--describe", "--all", *name), default)


@scenario("kafka-configs: quotas")
def config_quotas(bench: Bench) -> None:
    pair = ("--entity-type", "users", "--entity-name", bench.topic, "--entity-type", "clients", "--entity-name", "app")
    bench.run("kafka-configs", "--alter", *pair, "--add-config", "producer_byte_rate=1048576,request_percentage=200")
    entity = f"Quota configs for user-principal '{re.escape(bench.topic)}', client-id 'app' are"
    said = bench.run("kafka-configs", "--describe", *pair)
    expect(said, entity, r"producer_byte_rate=1048576\.0", r"request_percentage=200\.0")
    bench.run("kafka-configs", "--alter", *pair, "--delete-config", "producer_byte_rate,request_percentage")


@scenario("kafka-configs: SCRAM users")
def config_users(bench: Bench) -> None:
    user = ("--entity-type", "users", "--entity-name", bench.topic)
    bench.run("kafka-configs", "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=a secret]")
    name = re.escape(bench.topic)
    expected = f"SCRAM credential configs for user-principal '{name}' are SCRAM-SHA-256=iterations=8192"
    expect(bench.run("kafka-configs", "--describe", *user), expected)
    bench.run("kafka-configs", "--alter", *user, "--delete-config", "SCRAM-SHA-512", code=1)
    bench.run("kafka-configs", "--alter", *user, "--delete-config", "SCRAM-SHA-256")


@scenario("kafka-configs: groups")
def config_groups(bench: Bench) -> None:
    group = ("--entity-type", "groups", "--entity-name", bench.topic)
    bench.run("kafka-configs", "--alter", *group, "--add-config", "consumer.session.timeout.ms=46000")
    expect(bench.run("kafka-configs", "--describe", *group), "consumer.session.timeout.ms=46000")


@scenario("kafka-consumer-groups")
def consumer_groups(bench: Bench) -> None:
    bench.fill(10)
    member = bench.client.member(bench.topic, bench.topic)
    while not member.assigned():
        member.poll()
    member.commit({0: Committed(10, "")})
    name = re.escape(bench.topic)
    described = bench.run("kafka-consumer-groups", "--describe", "--group", bench.topic)
    expect(described, rf"{name}\s+{name}\s+0\s+10\s+10\s+0\s+confluent-driver")
    expect(bench.run("kafka-consumer-groups", "--describe", "--group", bench.topic, "--state"), r"Stable\s+1")
    member.close()
    expect(bench.run("kafka-consumer-groups", "--list"), f"^{name}$")
    reset = ("--reset-offsets", "--group", bench.topic, "--topic", bench.topic, "--shift-by", "-3", "--execute")
    expect(bench.run("kafka-consumer-groups", *reset), rf"{name}\s+{name}\s+0\s+7")
    delete = ("--delete-offsets", "--group", bench.topic, "--topic", bench.topic)
    expect(bench.run("kafka-consumer-groups", *delete), rf"{name}\s+0\s+Successful")
    expect(bench.run("kafka-consumer-groups", "--delete", "--group", bench.topic), "successful")


@scenario("kafka-groups")
def groups(bench: Bench) -> None:
    bench.fill(1)
    bench.client.admin.alter_group_offsets(bench.topic, bench.topic, {0: 1})
    expect(bench.run("kafka-groups", "--list"), rf"^{re.escape(bench.topic)}\s+Classic")


# ---- records


@scenario("kafka-console-producer, kafka-console-consumer")
def console(bench: Bench) -> None:
    bench.client.admin.create_topic(bench.topic)
    name = ("--topic", bench.topic)
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    bench.run("kafka-console-producer", *name, *keys, "--compression-codec", "lz4", stdin="a:1\nb:2\nc:3\n")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    said = bench.run(
        "kafka-console-consumer", *name, "--partition", "0", "--offset", "1", "--max-messages", "2", *shown
    )
    expect(said, "^Offset:1\tb\t2$", "^Offset:2\tc\t3$")
    group = ("--group", "compat-console", "--from-beginning", "--max-messages", "3")
    expect(bench.run("kafka-console-consumer", *name, *group), "^1\n2\n3$")


@scenario("kafka-get-offsets")
def get_offsets(bench: Bench) -> None:
    bench.fill(5, partitions=2)
    name = re.escape(bench.topic)
    for time, offset in (("latest", 5), ("earliest", 0), ("max-timestamp", r"\d")):
        said = bench.run("kafka-get-offsets", "--topic", bench.topic, "--time", time)
        expect(said, f"^{name}:0:{offset}$", f"^{name}:1:{offset}$")


@scenario("kafka-delete-records")
def delete_records(bench: Bench) -> None:
    bench.fill(5)
    plan = bench.file(
        "records.json", {"version": 1, "partitions": [{"topic": bench.topic, "partition": 0, "offset": 3}]}
    )
    said = bench.run("kafka-delete-records", "--offset-json-file", plan)
    expect(said, f"partition: {re.escape(bench.topic)}-0\tlow_watermark: 3")
    if bench.client.watermarks(bench.topic) != (3, 5):
        raise AssertionError(f"watermarks are {bench.client.watermarks(bench.topic)}")


# ---- cluster


@scenario("kafka-log-dirs")
def log_dirs(bench: Bench) -> None:
    bench.fill(5)
    said = bench.run("kafka-log-dirs", "--describe", "--topic-list", bench.topic)
    (directory,) = json.loads(next(line for line in said.splitlines() if line.startswith("{")))["brokers"][0]["logDirs"]
    if directory["error"] is not None or directory["partitions"][0]["partition"] != f"{bench.topic}-0":
        raise AssertionError(said)


@scenario("kafka-broker-api-versions")
def api_versions(bench: Bench) -> None:
    said = bench.run("kafka-broker-api-versions")
    expect(
        said, r"Produce\(0\): 0 to 13 \[usable: 13\]", r"Fetch\(1\): 4 to 18 \[usable: 18\]", r"Metadata\(3\): 0 to 13"
    )


@scenario("kafka-cluster")
def cluster(bench: Bench) -> None:
    expect(bench.run("kafka-cluster", "cluster-id"), r"^Cluster ID: \S{22}$")
    expect(bench.run("kafka-cluster", "list-endpoints"), r"127\.0\.0\.1")


@scenario("kafka-metadata-quorum")
def metadata_quorum(bench: Bench) -> None:
    status = bench.run("kafka-metadata-quorum", "describe", "--status")
    expect(status, r"^LeaderId:\s+\d+$", r"^HighWatermark:\s+[1-9]", r'^CurrentVoters:.*"id": \d')
    expect(bench.run("kafka-metadata-quorum", "describe", "--replication"), "Leader")


@scenario("kafka-features")
def features(bench: Bench) -> None:
    expect(bench.run("kafka-features", "describe"), r"Feature: group.version.*FinalizedVersionLevel: 1")


@scenario("kafka-leader-election")
def leader_election(bench: Bench) -> None:
    bench.fill(1)
    place = ("--topic", bench.topic, "--partition", "0")
    said = bench.run("kafka-leader-election", "--election-type", "preferred", *place)
    expect(said, f"Valid replica already elected for partitions {re.escape(bench.topic)}-0")


@scenario("kafka-reassign-partitions")
def reassign_partitions(bench: Bench) -> None:
    bench.fill(1)
    (broker,) = bench.client.admin.describe_cluster().addresses
    rows = [{"topic": bench.topic, "partition": 0, "replicas": [broker], "log_dirs": ["any"]}]
    plan = bench.file("plan.json", {"version": 1, "partitions": rows})
    expect(
        bench.run("kafka-reassign-partitions", "--reassignment-json-file", plan, "--execute"), "Successfully started"
    )
    verified = bench.run("kafka-reassign-partitions", "--reassignment-json-file", plan, "--verify")
    expect(verified, f"Reassignment of partition {re.escape(bench.topic)}-0 is completed")
    expect(bench.run("kafka-reassign-partitions", "--list"), "No partition reassignments found")


@scenario("kafka-transactions describe-producers")
def describe_producers(bench: Bench) -> None:
    bench.client.admin.create_topic(bench.topic)
    bench.client.produce(bench.topic, [Sent(b"a"), Sent(b"b")], idempotent=True)
    said = bench.run("kafka-transactions", "describe-producers", "--topic", bench.topic, "--partition", "0")
    expect(said, r"^ProducerId\s+ProducerEpoch", r"^\d+\s+0\s+-?\d+\s+1\s+\d+\s+None")


@scenario("kafka-client-metrics")
def client_metrics(bench: Bench) -> None:
    name = ("--name", "compat")
    bench.run(
        "kafka-client-metrics", "--alter", *name, "--metrics", "org.apache.kafka.consumer.", "--interval", "10000"
    )
    expect(bench.run("kafka-client-metrics", "--describe", *name), "interval.ms=10000")
    expect(bench.run("kafka-client-metrics", "--list"), "^compat$")
    bench.run("kafka-client-metrics", "--delete", *name)


# ---- load


@scenario("kafka-producer-perf-test")
def producer_performance(bench: Bench) -> None:
    bench.client.admin.create_topic(bench.topic)
    size = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    expect(bench.run("kafka-producer-perf-test", "--topic", bench.topic, *size), "^5000 records sent")
    if bench.client.watermarks(bench.topic) != (0, 5000):
        raise AssertionError(f"watermarks are {bench.client.watermarks(bench.topic)}")


@scenario("kafka-consumer-perf-test")
def consumer_performance(bench: Bench) -> None:
    bench.fill(2000)
    said = bench.run(
        "kafka-consumer-perf-test", "--topic", bench.topic, "--group", bench.topic, "--num-records", "2000"
    )
    expect(said, ", 2000, ")


def _events(said: str, name: str) -> list[dict[str, int]]:
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [event for event in events if event["name"] == name]


@scenario("kafka-verifiable-producer")
def verifiable_producer(bench: Bench) -> None:
    bench.client.admin.create_topic(bench.topic)
    said = bench.run("kafka-verifiable-producer", "--topic", bench.topic, "--max-messages", "50")
    offsets = sorted(event["offset"] for event in _events(said, "producer_send_success"))
    if offsets != list(range(50)) or _events(said, "tool_data")[0]["acked"] != 50:
        raise AssertionError(said[-1000:])


@scenario("kafka-verifiable-consumer")
def verifiable_consumer(bench: Bench) -> None:
    bench.fill(50)
    group = ("--group-id", bench.topic, "--max-messages", "50", "--reset-policy", "earliest")
    said = bench.run("kafka-verifiable-consumer", "--topic", bench.topic, *group)
    if sum(event["count"] for event in _events(said, "records_consumed")) != 50:
        raise AssertionError(said[-1000:])
    expect(said, '"offsets_committed".*"offset":50')


@scenario("kafka-e2e-latency")
def end_to_end_latency(bench: Bench) -> None:
    bench.client.admin.create_topic(bench.topic)
    size = ("--num-records", "20", "--record-size", "100", "--producer-acks", "all")
    expect(bench.run("kafka-e2e-latency", "--topic", bench.topic, *size), "^Percentiles: 50th")


# ---- not Kafka's own, but on everyone's machine


@scenario("kcat")
def kcat(bench: Bench) -> None:
    bench.client.admin.create_topic(bench.topic)
    name = ("-t", bench.topic)
    bench.run("kcat", "-P", *name, "-K", ":", "-H", "h=1", "-z", "lz4", stdin="a:1\nb:2\n")
    rows = [
        json.loads(line)
        for line in bench.run("kcat", "-C", *name, "-o", "beginning", "-c", "2", "-q", "-J").splitlines()
    ]
    if [(row["offset"], row["key"], row["payload"], row["headers"]) for row in rows] != [
        (0, "a", "1", ["h", "1"]),
        (1, "b", "2", ["h", "1"]),
    ]:
        raise AssertionError(rows)
    expect(bench.run("kcat", "-L", *name), "1 partitions")
    expect(bench.run("kcat", "-Q", "-t", f"{bench.topic}:0:-1"), "offset 2$")
    said = bench.run("kcat", "-q", "-o", "beginning", "-c", "2", "-G", bench.topic, bench.topic)
    expect(said, "^1\n2$")
