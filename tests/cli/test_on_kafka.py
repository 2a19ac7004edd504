"""The same verbs on Apache Kafka: the tests of Runnel's broker run again on it; then its data directory, offline."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from cli.data_dirs import checked_position, flip
from harness.kafka import running_small_kafka
from java_tools import REPOSITORY, run_java
from runnel.cli.main import cli

pytestmark = pytest.mark.java

VERBS = ("test_group.py", "test_config.py", "test_quota_and_user.py", "test_cluster.py")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "log.segment.bytes": "1048576",
}
NESTED_DEADLINE_S = 600
TRANSACTIONS = 4


class Left(NamedTuple):
    """What Kafka left, and how the verbs did on it while it ran."""

    data_dir: Path
    verbs: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("kafka")
    with running_small_kafka(folder, SETTINGS) as broker:
        verbs = run_verbs(broker.bootstrap)
        run_transactions(broker.bootstrap)
        broker.stop()
    return Left(folder / "data", verbs)


def run_verbs(bootstrap: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *(f"tests/cli/{name}" for name in VERBS)],
        cwd=REPOSITORY,
        env={**os.environ, "RUNNEL_TEST_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=NESTED_DEADLINE_S,
        check=False,
    )


def run_transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx-1"})
    producer.init_transactions()
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        producer.produce("payments", str(number), partition=0)
        assert producer.flush(60) == 0
        (producer.commit_transaction if number % 2 else producer.abort_transaction)()


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["log", *map(str, arguments)])


def dumped(*arguments: str | Path) -> list[Any]:
    result = invoke("dump", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_verb_does_the_same_on_kafka(kafka: Left) -> None:
    assert kafka.verbs.returncode == 0, kafka.verbs.stdout
    assert re.search(r"\d\d passed", kafka.verbs.stdout), kafka.verbs.stdout


def test_kafkas_data_directory_is_whole(kafka: Left) -> None:
    result = invoke("verify", kafka.data_dir, "--deep")
    assert result.exit_code == 0, result.stdout
    assert "DAMAGE" not in result.stdout
    assert "warn" not in result.stdout, result.stdout


def test_damage_in_kafkas_files_is_found_and_mended(kafka: Left, tmp_path: Path) -> None:
    data_dir = Path(shutil.copytree(kafka.data_dir, tmp_path / "data"))
    path = data_dir / "payments-0" / "00000000000000000000.log"
    flip(path, checked_position(path))
    document = json.loads(invoke("verify", data_dir, "--json").stdout)
    assert [finding["path"] for finding in document["findings"] if finding["status"] == "damage"] == [str(path)]
    assert invoke("verify", data_dir, "--repair", "--execute").exit_code == 0
    assert invoke("verify", data_dir).exit_code == 0
    assert list(path.parent.glob("*.corrupt"))
    quorum = data_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    flip(quorum, checked_position(quorum))
    raft = invoke("verify", data_dir, "--repair", "--execute")
    assert raft.exit_code == 1
    assert "voters must not forget" in raft.stdout


def test_metadata_reads_as_kafkas_own_tool_reads_it(kafka: Left) -> None:
    """Every field that Kafka shows is shown here with the same value; it leaves out those at their default."""
    path = kafka.data_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    done = run_java("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
    pattern = re.compile(r"\| offset: (\d+) .*payload: (\{.*\})$")
    theirs = {
        int(found[1]): json.loads(found[2]) for line in done.stdout.splitlines() if (found := pattern.search(line))
    }
    ours = {row["offset"]: row["decoded"] for row in dumped(path, "--deep") if "decoded" in row}
    assert len(theirs) > 50
    compared: set[str] = set()
    for offset, row in theirs.items():
        kind = "".join(word.capitalize() for word in row["type"].split("_"))
        assert ours[offset]["type"] == kind, row
        compared.add(kind)
        for name, expected in _snake(row["data"]).items():
            if ours[offset][name] != "(hidden)":
                assert ours[offset][name] == expected, (kind, name)
    assert {"BeginTransactionRecord", "RegisterControllerRecord", "TopicRecord", "ClientQuotaRecord"} <= compared


def _snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower(): _snake(item) for key, item in value.items()}
    return [_snake(item) for item in value] if isinstance(value, list) else value


def test_internal_topics_of_kafka(kafka: Left) -> None:
    decoded = [
        row["decoded"] for row in dumped(kafka.data_dir, "-t", "__consumer_offsets", "--deep") if "decoded" in row
    ]
    kinds = {row["type"] for row in decoded}
    assert {"OffsetCommitted", "OffsetRemoved", "GroupSaved", "GroupRemoved"} <= kinds
    assert "Malformed" not in kinds
    states = [
        row["decoded"]["state"]
        for row in dumped(kafka.data_dir, "-t", "__transaction_state", "--deep")
        if row.get("decoded", {}).get("transactional_id") == "tx-1"
    ]
    assert states.count("CompleteCommit") == states.count("CompleteAbort") == TRANSACTIONS // 2
    payments = kafka.data_dir / "payments-0"
    markers = [row["decoded"]["type"] for row in dumped(payments, "--deep") if "decoded" in row]
    assert sorted(markers) == ["AbortMarker"] * (TRANSACTIONS // 2) + ["CommitMarker"] * (TRANSACTIONS // 2)
    assert len(dumped(payments / "00000000000000000000.txnindex")) == TRANSACTIONS // 2
