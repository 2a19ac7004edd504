"""`runnel group`: groups with and without living members, resets by every rule, and what is refused.

Runs against Apache Kafka too, with RUNNEL_TEST_BOOTSTRAP (see test_on_kafka.py).
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from cli.conftest import DEADLINE_S, Finished, Runnel, StartRunnel
from harness.conditions import wait_until

NewName = Callable[[], str]
NewTopic = Callable[..., str]
RECORDS = 10


@pytest.fixture
def topic(runnel: Runnel, new_topic: NewTopic) -> str:
    """Two partitions with ten records each, a second apart."""
    name = new_topic(2)
    lines = "".join(f'{{"value": "{number}", "timestamp": {number * 1000}}}\n' for number in range(RECORDS)).encode()
    for partition in ("0", "1"):
        runnel("produce", name, "-i", "json", "-q", "-p", partition, stdin=lines).ok()
    return name


@pytest.fixture
def group(runnel: Runnel, topic: str, new_name: NewName) -> str:
    """A group without members that stands at 4 in partition 0 and has committed nothing in partition 1."""
    name = f"g-{new_name()}"
    runnel("group", "reset", name, "-t", f"{topic}:0", "--to-offset", "4", "--execute").ok()
    return name


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    """A living member that was assigned both partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "app",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "group.protocol": protocol,
        }
    )
    try:
        consumer.subscribe([topic])

        def is_assigned() -> bool:
            consumer.poll(0.1)
            return len(consumer.assignment()) == 2

        wait_until(is_assigned, f"the assignment in group {group}")
        yield consumer
    finally:
        consumer.close()


def described(runnel: Runnel, group: str) -> Any:
    (document,) = runnel("group", "describe", group, "--json").ok().document
    return document


def offsets(runnel: Runnel, group: str) -> dict[int, int]:
    """What the group has committed, by partition."""
    rows = described(runnel, group)["partitions"]
    return {row["partition"]: row["current_offset"] for row in rows if row["current_offset"] is not None}


# Looking --------------------------------------------------------------------------------------------------


def test_a_group_without_members_is_listed_and_described(runnel: Runnel, topic: str, group: str) -> None:
    listed = runnel("group", "list", "-r", group).ok()
    assert [line.split() for line in listed.lines] == [
        ["GROUP", "TYPE", "STATE", "COORDINATOR"],
        [group, "classic", "Empty", "1"],
    ]
    with_lag = runnel("group", "list", "-r", group, "--lag").ok()
    assert with_lag.lines[1].split() == [group, "classic", "Empty", "1", "0", "6"]

    shown = runnel("group", "describe", group).ok()
    assert shown.lines[0] == f"{group}: Empty, classic, no active members, coordinator 1, lag 6"
    assert shown.lines[1].split() == [
        "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"
    ]  # fmt: skip
    assert shown.lines[2].split() == [topic, "0", "4", "10", "6", "-", "-", "-"]
    members = runnel("group", "describe", group, "--members").ok()
    assert members.errors == f"group '{group}' has no active members\n"
    state = runnel("group", "describe", group, "--state").ok().lines[1].split()
    assert state == [group, "1", "-", "Empty", "classic", "-", "0"]


def test_json_of_a_group_without_members(runnel: Runnel, topic: str, group: str) -> None:
    (listed,) = runnel("group", "list", "-r", group, "--json").ok().document
    assert {key: listed[key] for key in ("group", "type", "state", "coordinator")} == {
        "group": group, "type": "classic", "state": "Empty", "coordinator": 1
    }  # fmt: skip
    document = described(runnel, group)
    assert (document["group"], document["state"], document["total_lag"], document["members"]) == (group, "Empty", 6, [])
    assert document["partitions"] == [
        {
            "topic": topic,
            "partition": 0,
            "current_offset": 4,
            "log_end_offset": 10,
            "lag": 6,
            "leader_epoch": None,
            "metadata": "",
            "member_id": None,
            "client_id": None,
            "host": None,
        }
    ]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member(runnel: Runnel, bootstrap: str, topic: str, new_name: NewName, protocol: str) -> None:
    group = f"g-{new_name()}"
    with member(bootstrap, group, topic, protocol):
        runnel("group", "list", "-r", group, "--state", "stable", "--type", protocol).ok()
        document = described(runnel, group)
        assert (document["state"], document["type"]) == ("Stable", protocol)
        (only,) = document["members"]
        assert only["client_id"] == "app"
        assert only["assignment"] == [{"topic": topic, "partition": index} for index in (0, 1)]
        for row in document["partitions"]:
            assert (row["current_offset"], row["log_end_offset"], row["lag"]) == (None, RECORDS, None)
            assert (row["member_id"], row["client_id"]) == (only["member_id"], "app")
        assert (document["epoch"] is not None) == (protocol == "consumer")

        shown = runnel("group", "describe", group).ok().lines
        assert shown[0].startswith(f"{group}: Stable, {protocol}, assignor ")
        assert shown[2].split()[:5] == [topic, "0", "-", "10", "-"]
        assert shown[2].split()[7] == "app"
        rows = runnel("group", "describe", group, "--members", "-v").ok().lines
        assert rows[1].split()[0] == "CONSUMER-ID"
        assert rows[2].split()[-1] == f"{topic}(0,1)"
        refusals = {
            (
                "group",
                "reset",
                group,
                "--to-earliest",
                "--execute",
            ): "its offsets can only be set while nobody is in it",
            ("group", "reset", group, "--to-earliest"): "with 1 member (app)",
            ("group", "seek", group, "--to", "start"): "stop its consumers",
            ("group", "delete", group): "stop its consumers first",
            ("group", "delete", group, "--dry-run"): "stop its consumers first",
        }
        for arguments, message in refusals.items():
            refused = runnel(*arguments)
            assert refused.exit_code == 1, arguments
            assert message in refused.errors
            assert refused.errors.count("\n") == 1
    assert described(runnel, group)["state"] == "Empty"


def test_filters_of_the_list(runnel: Runnel, group: str) -> None:
    def names(*arguments: str) -> list[str]:
        return [row["group"] for row in runnel("group", "list", "-r", group, "--json", *arguments).ok().document]

    assert names("--state", "empty,stable") == [group]
    assert names("--state", "Stable") == []
    assert names("--type", "classic") == [group]
    assert names("--type", "consumer,share") == []
    assert runnel("group", "ls", "-r", "^nothing-like-this$").ok().errors == "no groups match\n"


def test_a_group_that_does_not_exist(runnel: Runnel, group: str, new_name: NewName) -> None:
    name = f"g-{new_name()}"
    message = f"Error: group '{name}' does not exist; `runnel group list` shows what does\n"
    for arguments in (
        ("describe", name),
        ("describe", name, "--members"),
        ("delete", name),
        ("delete", name, "--dry-run"),
        ("offset-delete", name, "-t", "orders"),
    ):
        refused = runnel("group", *arguments)
        assert (refused.exit_code, refused.errors) == (1, message), arguments
    both = runnel("group", "describe", name, "--group", group, "--json")
    assert both.exit_code == 1
    assert [document["group"] for document in both.document] == [group]
    assert runnel("group", "delete", name, "--if-exists").ok().text == f"{name} does not exist\n"


def test_watching(start_runnel: StartRunnel, runnel: Runnel, topic: str, group: str) -> None:
    with start_runnel("group", "describe", group, "--watch", "--every", "0.1", "--json") as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())[0]["total_lag"] == 6
        runnel("group", "seek", group, "--to", "end").ok()
        wait_until(lambda: json.loads(watching.stdout.readline())[0]["total_lag"] == 0, "the lag to change")
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=DEADLINE_S)
        assert (watching.returncode, errors) == (130, b"")


# Resetting ------------------------------------------------------------------------------------------------


def planned(finished: Finished) -> dict[int, int]:
    return {row["partition"]: row["new_offset"] for row in finished.ok().document}


def test_a_reset_is_a_dry_run_unless_executed(runnel: Runnel, topic: str, group: str) -> None:
    shown = runnel("group", "reset", group, "--to-earliest").ok()
    assert shown.errors == "nothing was changed (add --execute to do it)\n"
    assert shown.lines[1].split() == [group, topic, "0", "4", "0", "0", "10", "10"]
    assert runnel("group", "reset", group, "--to-earliest", "--dry-run").ok().text == shown.text
    assert offsets(runnel, group) == {0: 4}
    done = runnel("group", "reset", group, "--to-earliest", "--execute", "--json").ok()
    assert done.errors == "set 1 offset\n"
    assert done.document == [
        {
            "group": group,
            "topic": topic,
            "partition": 0,
            "old_offset": 4,
            "new_offset": 0,
            "start_offset": 0,
            "end_offset": 10,
            "executed": True,
            "ok": True,
            "error_code": None,
            "error": None,
        }
    ]
    assert offsets(runnel, group) == {0: 0}


RULES = [
    (("--to-earliest",), 0),
    (("--to-latest",), 10),
    (("--to-offset", "7"), 7),
    (("--to-datetime", "1970-01-01T00:00:03"), 3),
    (("--to-datetime", "1970-01-01T00:00:02.500+00:00"), 3),
    (("--to-datetime", "2500"), 3),
    (("--to-datetime", "2099-01-01"), 10),
    (("--by-duration", "PT1H"), 10),
    (("--by-duration", "40000d"), 0),
    (("--shift-by", "3"), 7),
    (("--shift-by", "-3"), 1),
    (("--to-current",), 4),
]


def test_rules(runnel: Runnel, group: str) -> None:
    found = {rule: planned(runnel("group", "reset", group, *rule, "--json")) for rule, _ in RULES}
    assert found == {rule: {0: expected} for rule, expected in RULES}


def test_offsets_beyond_the_log_are_brought_back(runnel: Runnel, topic: str, group: str) -> None:
    for rule, taken in ((("--to-offset", "99"), 10), (("--shift-by", "-99"), 0)):
        shown = runnel("group", "reset", group, *rule, "--json")
        assert planned(shown) == {0: taken}
        assert f"lies outside of what the partition has (0 to 10); {taken} is taken" in shown.errors


def test_topics_and_partitions_can_be_chosen(runnel: Runnel, topic: str, group: str, new_topic: NewTopic) -> None:
    other = new_topic(1)
    assert planned(runnel("group", "reset", group, "-t", topic, "--to-latest", "--json")) == {0: 10, 1: 10}
    assert planned(runnel("group", "reset", group, "-t", f"{topic}:1", "--to-latest", "--json")) == {1: 10}
    rows = runnel("group", "reset", group, "-t", topic, "-t", other, "--to-latest", "--json").ok().document
    assert [(row["topic"], row["partition"]) for row in rows] == sorted([(topic, 0), (topic, 1), (other, 0)])
    wrong = {
        (f"{topic}:7",): f"partition {topic}/7 does not exist",
        ("no-such-topic",): "topic 'no-such-topic' does not exist",
    }
    for (selection,), message in wrong.items():
        refused = runnel("group", "reset", group, "-t", selection, "--to-latest")
        assert refused.exit_code == 1
        assert message in refused.errors
    unshifted = runnel("group", "reset", group, "-t", f"{topic}:1", "--shift-by", "1")
    assert unshifted.exit_code == 1
    assert f"partition {topic}/1 has no committed offset" in unshifted.errors


def test_a_new_group_is_made_by_a_commit(runnel: Runnel, topic: str, new_name: NewName) -> None:
    name = f"g-{new_name()}"
    nothing = runnel("group", "reset", name, "--to-latest")
    assert nothing.exit_code == 1
    assert "has committed nothing" in nothing.errors
    shown = runnel("group", "reset", name, "-t", topic, "--to-latest").ok()
    assert f"group '{name}' does not exist yet: a committed offset makes it" in shown.errors
    assert runnel("group", "describe", name).exit_code == 1
    runnel("group", "reset", name, "-t", topic, "--to-latest", "--execute").ok()
    assert offsets(runnel, name) == {0: 10, 1: 10}


def test_offsets_go_to_a_file_and_come_back(runnel: Runnel, topic: str, group: str, tmp_path: Path) -> None:
    saved = runnel("group", "reset", group, "--to-current", "--export").ok()
    assert saved.text == f"{topic},0,4\n"
    runnel("group", "reset", group, "--to-latest", "--execute").ok()
    file = tmp_path / "saved.csv"
    file.write_bytes(saved.output)
    runnel("group", "reset", group, "--from-file", str(file), "--execute").ok()
    assert offsets(runnel, group) == {0: 4}
    piped = runnel("group", "reset", group, "--from-file", "-", "--json", stdin=f"{group},{topic},1,2\n".encode())
    assert planned(piped) == {1: 2}
    for content, message in (
        ("orders,0", "line 1: 'orders,0' is not TOPIC,PARTITION,OFFSET"),
        (f"\n{topic},0,x", "line 2"),
        ("", "holds no offsets"),
        (f"{topic},0,-5", "line 1"),
    ):
        file.write_text(content)
        refused = runnel("group", "reset", group, "--from-file", str(file))
        assert refused.exit_code == 2, content
        assert message in refused.errors
    file.write_text(f"another-group,{topic},0,1")
    refused = runnel("group", "reset", group, "--from-file", str(file))
    assert (refused.exit_code, "the file has no offset for group" in refused.errors) == (1, True)


def test_several_groups_at_once(runnel: Runnel, bootstrap: str, topic: str, group: str) -> None:
    second = f"{group}-b"
    runnel("group", "reset", second, "-t", topic, "--to-offset", "2", "--execute").ok()
    exported = runnel("group", "reset", group, second, "--to-current", "--export").ok()
    assert exported.lines == [f"{group},{topic},0,4", f"{second},{topic},0,2", f"{second},{topic},1,2"]
    assert len(runnel("group", "describe", "-r", group, "--json").ok().document) == 2
    with member(bootstrap, f"{group}-c", topic):
        some = runnel("group", "reset", group, f"{group}-c", "--to-latest", "--execute", "--json")
        assert some.exit_code == 1
        assert f"group '{group}-c' is Stable with 1 member" in some.errors
        assert [(row["group"], row["new_offset"], row["ok"]) for row in some.document] == [(group, 10, True)]


def test_seek(runnel: Runnel, topic: str, group: str, new_topic: NewTopic) -> None:
    for word, expected in (("start", 0), ("end", 10), ("1970-01-01T00:00:03", 3), ("@5000", 5), ("0000000007", 7)):
        assert planned(runnel("group", "seek", group, "--to", word, "--json")) == {0: expected}
        assert offsets(runnel, group) == {0: expected}
    shown = runnel("group", "seek", group, "--to", "start", "--dry-run").ok()
    assert shown.errors == "nothing was changed (--dry-run)\n"
    assert offsets(runnel, group) == {0: 7}
    new = new_topic(1)
    refused = runnel("group", "seek", group, "--to", "end", "--topics", new)
    assert (refused.exit_code, f"has committed nothing of {new}" in refused.errors) == (1, True)
    runnel("group", "seek", group, "--to", "end", "--topics", f"{topic},{new}", "--allow-new-topics").ok()
    assert {row["topic"] for row in described(runnel, group)["partitions"]} == {topic, new}


def test_seek_to_another_group_or_a_file(runnel: Runnel, topic: str, group: str, new_name: NewName) -> None:
    copy = f"g-{new_name()}"
    runnel("group", "seek", copy, "--to-group", group, "--allow-new-topics").ok()
    assert offsets(runnel, copy) == {0: 4}
    lines = f"# saved\n{topic} 0 6\n{topic} 1 3\n".encode()
    runnel("group", "seek", copy, "--to-file", "-", stdin=lines).ok()
    assert offsets(runnel, copy) == {0: 6, 1: 3}
    refused = runnel("group", "seek", copy, "--to-group", f"g-{new_name()}")
    assert (refused.exit_code, "has committed nothing" in refused.errors) == (1, True)


# Topics that change under a group --------------------------------------------------------------------------


def test_a_topic_that_is_gone(runnel: Runnel, topic: str, group: str, new_topic: NewTopic) -> None:
    """Kafka forgets the offsets of a deleted topic; a broker that keeps them is shown as it is."""
    other = new_topic(1)
    runnel("group", "reset", group, "-t", other, "--to-latest", "--execute").ok()
    runnel("topic", "delete", topic).ok()
    rows = [row for row in described(runnel, group)["partitions"] if row["topic"] == topic]
    assert all((row["log_end_offset"], row["lag"]) == (None, None) for row in rows)
    moved = runnel("group", "reset", group, "--to-earliest", "--json").ok()
    assert [row["topic"] for row in moved.document] == [other]


def test_an_offset_beyond_the_end_is_told(runnel: Runnel, topic: str, group: str) -> None:
    """As when a topic is deleted and created anew: offsets may stay, the log starts over."""
    runnel("topic", "trim", topic, "-o", "end").ok()
    low = runnel("group", "describe", group, "--json").ok().document[0]["partitions"][0]
    assert (low["current_offset"], low["log_end_offset"], low["lag"]) == (4, 10, 6)
    assert planned(runnel("group", "reset", group, "--to-current", "--json")) == {0: 10}


# Deleting -------------------------------------------------------------------------------------------------


def test_deleting_offsets_and_groups(runnel: Runnel, topic: str, group: str) -> None:
    runnel("group", "reset", group, "-t", topic, "--to-latest", "--execute").ok()
    assert (
        runnel("group", "offset-delete", group, "-t", f"{topic}:1", "--dry-run").ok().text
        == f"would forget {topic}/1\n"
    )
    assert runnel("group", "offset-delete", group, "-t", f"{topic}:1").ok().text == f"forgot {topic}/1\n"
    assert offsets(runnel, group) == {0: 10}
    nothing = runnel("group", "offset-delete", group, "-t", f"{topic}:1")
    assert nothing.exit_code == 1
    assert f"keeps no offset of {topic}" in nothing.errors
    assert runnel("group", "delete", "-r", f"{group}.*", "--dry-run").ok().text == f"would delete {group}\n"
    (deleted,) = runnel("group", "delete", group, "--json").ok().document
    assert deleted == {"group": group, "ok": True, "error_code": None, "error": None}
    assert runnel("group", "list", "-r", group).ok().text == ""
    assert runnel("group", "delete", "-r", f"{group}.*").ok().errors == "no group matches\n"
