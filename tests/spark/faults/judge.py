"""What the sinks hold against what producers were promised: lake tables exactly once, the topic at least once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from crash.load import Ledger
from harness.topics import read_all
from spark.faults.driver_program import TOPIC_SINK, Plan

REQUEST_S = 60
CLI_S = 300


@dataclass(slots=True)
class Outcome:
    kind: str
    kills: int = 0
    acked: int = 0
    restarts: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    again: int = 0
    again_max: int = 0

    def table(self) -> str:
        rows = ", ".join(f"{count} in {sink}" for sink, count in self.rows.items())
        return (
            f"\n{self.kind}: {self.kills} kills and one of the driver, {len(self.restarts)} queries restarted, "
            f"{self.acked} acked; {rows}; "
            f"{self.again} again in the topic (at most {self.again_max}); {len(self.wrong)} wrong"
        )


def judge(plan: Plan, ledgers: list[Ledger], outcome: Outcome, target_partitions: int) -> Outcome:
    ends = ends_of(plan.bootstrap, plan.topic, len(ledgers))
    outcome.acked = sum(len(ledger.acked) for ledger in ledgers)
    outcome.wrong += [f"{ledger.name} {failure}" for ledger in ledgers for failure in ledger.failed]
    for ledger in ledgers:
        beyond = [offset for offset in ledger.acked.values() if offset >= ends[ledger.partition]]
        outcome.wrong += [f"the topic has lost {ledger.name} at {offset}" for offset in beyond]
    for sink in plan.sinks:
        if sink == TOPIC_SINK:
            _judge_topic(plan, ends, outcome, target_partitions)
        else:
            _judge_table(plan, sink, ends, outcome)
    return outcome


def ends_of(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        places = [TopicPartition(topic, index) for index in range(partitions)]
        return {place.partition: consumer.get_watermark_offsets(place, REQUEST_S)[1] for place in places}
    finally:
        consumer.close()


def _judge_table(plan: Plan, sink: str, ends: dict[int, int], outcome: Outcome) -> None:
    """By `runnel lake verify`, up to the end of the topic: counts, offsets, checksums."""
    until = json.dumps({plan.topic: {str(partition): end for partition, end in ends.items()}})
    command = [sys.executable, "-m", "runnel", "lake", "verify", plan.path(sink), "--format", sink, "--json"]
    command += ["--topic", plan.topic, "-b", plan.bootstrap, "--offsets", until]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLI_S, check=False)
    if not done.stdout:
        outcome.wrong.append(f"{sink}: exit code {done.returncode}: {done.stderr[-2000:]}")
        return
    document = json.loads(done.stdout)
    outcome.rows[sink] = sum(row["table_rows"] for row in document["partitions"])
    if done.returncode != 0 or not document["equal"] or outcome.rows[sink] != sum(ends.values()):
        outcome.wrong.append(f"{sink}: {done.stdout[-2000:]}")


def _judge_topic(plan: Plan, ends: dict[int, int], outcome: Outcome, partitions: int) -> None:
    """Each record under the place that it came from, at least once, and not more often than batches were repeated."""
    found: Counter[bytes] = Counter()
    for partition in range(partitions):
        found.update(read_all(plan.bootstrap, plan.target, partition, keep=lambda message: message.key()))
    wanted = {b"%d:%d" % (partition, offset) for partition, end in ends.items() for offset in range(end)}
    lost, strange = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
    outcome.rows[TOPIC_SINK] = found.total()
    outcome.again = found.total() - len(found)
    # Each kill, the last of the driver and each restart repeat at most one batch.
    outcome.again_max = (outcome.kills + 1 + len(outcome.restarts)) * plan.per_trigger
    outcome.wrong += [f"the target lacks {len(lost)}: {lost[:5]}"] if lost else []
    outcome.wrong += [f"the target has unknown {strange[:5]}"] if strange else []
    if outcome.again > outcome.again_max:
        outcome.wrong.append(f"{outcome.again} records again, and only {outcome.again_max} can be explained")
