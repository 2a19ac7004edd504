"""`runnel topic` from creation to deletion, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable

from cli.conftest import Runnel

NewName = Callable[[], str]


def test_the_life_of_a_topic(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    created = runnel("topic", "create", name, "-p", "3", "-c", "retention.ms=60000").ok()
    assert created.text == f"created {name} (3 partitions, replication factor 1)\n"

    listed = runnel("topic", "list", "-r", name).ok()
    assert [line.split() for line in listed.lines] == [["TOPIC", "PARTITIONS", "REPLICAS"], [name, "3", "1"]]

    runnel("produce", name, "-p", "1", stdin=b"a\nb\n").ok()
    described = runnel("topic", "describe", name).ok().text
    assert f"{name}: 3 partitions, replication factor 1" in described
    assert "retention.ms" in described
    assert "max.message.bytes" not in described
    assert "max.message.bytes" in runnel("topic", "describe", name, "-c").ok().text

    assert runnel("topic", "alter", name, "-c", "max.message.bytes=5000").ok().text == f"altered {name}\n"
    assert runnel("topic", "add-partitions", name, "-n", "1").ok().text == f"added partitions to {name}\n"
    assert runnel("topic", "add-partitions", name, "-p", "6").exit_code == 0
    assert runnel("topic", "delete", name).ok().text == f"deleted {name}\n"
    assert runnel("topic", "list", "-r", name).ok().text == ""


def test_json_documents(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    (created,) = runnel("topic", "create", name, "-p", "2", "-c", "segment.ms=60000", "--json").ok().document
    assert created["topic"] == name
    assert (created["ok"], created["existed"], created["partitions"], created["replicas"]) == (True, False, 2, 1)
    runnel("produce", name, "-p", "0", "-v", "x", "-q").ok()

    (listed,) = runnel("topic", "list", "-r", f"^{name}$", "--json").ok().document
    assert listed == {
        "topic": name,
        "topic_id": created["topic_id"],
        "internal": False,
        "partitions": 2,
        "replicas": 1,
    }

    (described,) = runnel("topic", "describe", name, "--json").ok().document
    assert {key: described[key] for key in listed} == listed
    assert described["configs"] == [{"name": "segment.ms", "value": "60000", "source": "topic", "sensitive": False}]
    first, second = described["partition_details"]
    assert (first["start_offset"], first["end_offset"], second["end_offset"]) == (0, 1, 0)
    assert first["size_bytes"] > 0
    assert first["replicas"] == first["isr"] == [first["leader"]]
    assert set(first) == {
        "partition", "leader", "leader_epoch", "replicas", "isr", "offline", "start_offset", "end_offset", "size_bytes"
    }  # fmt: skip

    (altered,) = runnel("topic", "alter", name, "-d", "segment.ms", "--json").ok().document
    assert altered == {"topic": name, "ok": True, "error_code": None, "error": None}
    (again,) = runnel("topic", "describe", name, "--json").ok().document
    assert again["configs"] == []


def test_what_exists_already(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    runnel("topic", "create", name).ok()
    twice = runnel("topic", "create", name)
    assert twice.exit_code == 1
    assert twice.errors == f"Error: topic '{name}' already exists; pass --if-not-exists to accept that\n"
    assert runnel("topic", "create", name, "--if-not-exists").ok().text == f"{name} exists already\n"
    (document,) = runnel("topic", "create", name, "--if-not-exists", "--json").ok().document
    assert document["existed"] is True


def test_what_does_not_exist(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    for arguments in (("describe", name), ("delete", name), ("add-partitions", name, "-n", "1"),
                      ("alter", name, "-d", "x"),
                      ("trim", name, "-o", "end")):  # fmt: skip
        refused = runnel("topic", *arguments)
        assert refused.exit_code == 1
        assert refused.errors.startswith(f"Error: topic '{name}' does not exist")
        assert refused.errors.count("\n") == 1
    assert runnel("topic", "delete", name, "--if-exists").ok().text == f"{name} does not exist\n"


def test_some_fail_and_some_succeed(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    mixed = runnel("topic", "create", name, "not/a/name", "--json")
    assert mixed.exit_code == 1
    good, bad = mixed.document
    assert (good["ok"], bad["ok"], bad["error_code"]) == (True, False, "INVALID_TOPIC_EXCEPTION")
    assert mixed.errors.startswith("Error: topic 'not/a/name'")


def test_dry_runs_change_nothing(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    assert runnel("topic", "create", name, "--dry-run").ok().text.startswith(f"would create {name}")
    assert runnel("topic", "create", name, "-r", "9", "--dry-run").exit_code == 1
    assert runnel("topic", "describe", name).exit_code == 1
    runnel("topic", "create", name).ok()
    runnel("topic", "alter", name, "-c", "retention.ms=1", "--dry-run").ok()
    assert runnel("topic", "alter", name, "-c", "retention.ms=x", "--dry-run").exit_code == 1
    runnel("topic", "add-partitions", name, "-n", "1", "--dry-run").ok()
    assert runnel("topic", "delete", "-r", f"{name}.*", "--dry-run").ok().text == f"would delete {name}\n"
    (described,) = runnel("topic", "describe", name, "--json").ok().document
    assert (described["partitions"], described["configs"]) == (1, [])


def test_deleting_by_pattern_matches_whole_names(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    runnel("topic", "create", f"{name}-a", f"{name}-b", f"x-{name}-a").ok()
    assert runnel("topic", "delete", "-r", f"{name}-.").ok().lines == [f"deleted {name}-a", f"deleted {name}-b"]
    assert runnel("topic", "describe", f"x-{name}-a").exit_code == 0


def test_trim_by_offset_and_by_time(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    runnel("topic", "create", name, "-p", "2").ok()
    lines = "".join(f'{{"value": "{number}", "timestamp": {number * 1000}}}\n' for number in range(10)).encode()
    for partition in ("0", "1"):
        runnel("produce", name, "-i", "json", "-p", partition, stdin=lines).ok()

    shown = runnel("topic", "trim", name, "--before-offset", "4", "--dry-run", "--json").ok().document
    assert [row["new_start_offset"] for row in shown] == [4, 4]
    runnel("topic", "trim", name, "--before-offset", "4", "-p", "0").ok()
    assert runnel("consume", name, "-e", "-q", "-p", "0").ok().lines == [str(number) for number in range(4, 10)]
    assert len(runnel("consume", name, "-e", "-q", "-p", "1").ok().lines) == 10

    rows = runnel("topic", "trim", name, "--to-timestamp", "1970-01-01T00:00:07", "--json").ok().document
    assert [(row["old_start_offset"], row["new_start_offset"]) for row in rows] == [(4, 7), (0, 7)]
    runnel("topic", "trim", name, "-o", "end").ok()
    assert runnel("consume", name, "-e", "-q").ok().text == ""
