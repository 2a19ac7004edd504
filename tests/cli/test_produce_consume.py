"""`runnel produce` and `runnel consume` as filters: text in, text out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Runnel

NewName = Callable[[], str]


@pytest.fixture
def topic(runnel: Runnel, new_name: NewName) -> str:
    name = new_name()
    runnel("topic", "create", name, "-p", "1").ok()
    return name


def test_lines_in_lines_out(runnel: Runnel, topic: str) -> None:
    produced = runnel("produce", topic, stdin=b"one\ntwo\n\nlast").ok()
    assert produced.text == ""
    assert f"to {topic}/0, offsets 0 to 3" in produced.errors
    consumed = runnel("consume", topic, "-e").ok()
    assert consumed.text == "one\ntwo\n\nlast\n"
    assert "consumed 4 records" in consumed.errors
    assert runnel("consume", topic, "-e", "-q").ok().errors == ""


def test_a_topic_is_created_unless_forbidden(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    forbidden = runnel("produce", name, "-v", "x", "--no-create")
    assert forbidden.exit_code == 1
    assert "does not exist" in forbidden.errors
    created = runnel("produce", name, "-v", "x").ok()
    assert "did not exist: the broker created it" in created.errors
    assert runnel("consume", name, "-e", "-q").ok().text == "x\n"
    missing = runnel("consume", new_name(), "-e")
    assert (missing.exit_code, missing.errors.count("\n")) == (1, 1)


def test_keys_headers_nulls_and_the_json_of_them(runnel: Runnel, topic: str) -> None:
    runnel("produce", topic, "-K", ":", "-H", "a=1", "-H", "b", stdin=b"k:v\nno key\n").ok()
    runnel("produce", topic, "-k", "k", "--tombstone").ok()
    runnel("produce", topic, "-Z", "-K", ":", stdin=b":\n").ok()
    documents = runnel("consume", topic, "-e", "--json").ok().documents
    assert [(row["key"], row["value"]) for row in documents] == [
        ("k", "v"), (None, "no key"), ("k", None), (None, None)
    ]  # fmt: skip
    assert documents[0]["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": None}]
    assert [row["offset"] for row in documents] == [0, 1, 2, 3]
    assert {row["partition"] for row in documents} == {0}
    keyed = runnel("consume", topic, "-e", "-K", "%|", "--null", "NULL").ok()
    assert keyed.text == "k%|v\nNULL%|no key\nk%|NULL\nNULL%|NULL\n"


def test_bytes_survive_a_copy_from_topic_to_topic(runnel: Runnel, topic: str, new_name: NewName) -> None:
    data = bytes(range(256)) * 20
    runnel("produce", topic, "-i", "whole", "-k", "k", stdin=data).ok()
    runnel("produce", topic, "-v", "text", "-H", "h=ü").ok()
    other = new_name()
    lines = runnel("consume", topic, "-e", "--json", "-q").ok().output
    runnel("produce", other, "-i", "json", stdin=lines).ok()
    assert runnel("consume", other, "-e", "-D", "", "-n", "1").ok().output == data
    copied = runnel("consume", other, "-e", "--json", "-q").ok().output
    assert copied == lines.replace(topic.encode(), other.encode())
    assert runnel("consume", topic, "-e", "-n", "1", "--encoding", "hex").ok().text == data.hex() + "\n"


def test_files_and_delimiters(runnel: Runnel, topic: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a;b")
    second.write_bytes(b"c;d;")
    runnel("produce", topic, str(first), str(second), "-D", ";").ok()
    assert runnel("consume", topic, "-e", "-D", "|").ok().text == "a|b|c|d|"
    runnel("produce", topic, str(first), "-", "-i", "whole", stdin=b"from stdin").ok()
    assert runnel("consume", topic, "-o", "4", "-e").ok().lines == ["a;b", "from stdin"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression_and_the_summary_in_json(runnel: Runnel, topic: str, codec: str) -> None:
    lines = b"".join(b"%0100d\n" % number for number in range(500))
    summary = runnel("produce", topic, "-z", codec, "--json", "-q", stdin=lines).ok()
    assert summary.errors == ""
    document = summary.document
    assert document["topic"] == topic
    assert document["records"] == 500
    assert document["bytes"] < 20_000
    assert document["partitions"] == [{"partition": 0, "records": 500, "base_offset": 0, "last_offset": 499}]
    assert runnel("consume", topic, "-e").ok().output == lines


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(runnel: Runnel, topic: str, acks: str) -> None:
    runnel("produce", topic, "--acks", acks, "-v", "x").ok()
    assert runnel("consume", topic, "-n", "1").ok().text == "x\n"


@pytest.fixture
def timed(runnel: Runnel, topic: str) -> str:
    """Ten records, a second apart, beginning with 2026."""
    lines = "".join(f'{{"value": "{n}", "timestamp": {1767225600000 + n * 1000}}}\n' for n in range(10))
    runnel("produce", topic, "-i", "json", stdin=lines.encode()).ok()
    return topic


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-e",), "0123456789"),
        (("-o", "start", "-n", "3"), "012"),
        (("-o", "7", "-e"), "789"),
        (("-o", "-2", "-e"), "89"),
        (("-o", "-99", "-e"), "0123456789"),
        (("-o", "end", "-e"), ""),
        (("-o", "@2026-01-01T00:00:08", "-e"), "89"),
        (("-o", "@1767225608500", "-e"), "9"),
        (("-o", "@2030-01-01", "-e"), ""),
        (("-o", "2", "--until", "5"), "234"),
        (("-o", "@2026-01-01T00:00:03", "--until", "@2026-01-01T00:00:06"), "345"),
        (("--until", "-8"), "01"),
        (("-p", "0", "-o", "4", "-n", "1"), "4"),
    ],
    ids=lambda value: " ".join(value),
)
def test_positions(runnel: Runnel, timed: str, arguments: tuple[str, ...], expected: str) -> None:
    assert runnel("consume", timed, "-D", "", "-q", *arguments).ok().text == expected


def test_a_position_outside_the_log_is_mentioned(runnel: Runnel, timed: str) -> None:
    runnel("topic", "trim", timed, "-o", "5").ok()
    consumed = runnel("consume", timed, "-o", "2", "-n", "1").ok()
    assert consumed.text == "5\n"
    assert f"{timed}/0 does not have offset 2 (it holds 5 to 10): reading from 5" in consumed.errors


def test_formats(runnel: Runnel, timed: str) -> None:
    consumed = runnel("consume", timed, "-n", "1", "-f", r"%t %p %o %T %v %%\n").ok()
    assert consumed.text == f"{timed} 0 0 2026-01-01T00:00:00.000Z 0 %\n"


def test_several_topics_and_partitions(runnel: Runnel, new_name: NewName) -> None:
    one, two = new_name(), new_name()
    runnel("topic", "create", one, two, "-p", "3").ok()
    for topic in (one, two):
        for partition in range(3):
            runnel("produce", topic, "-p", str(partition), "-v", "x", "-q").ok()
    consumed = runnel("consume", one, two, "-e", "-p", "0,2", "-f", r"%t/%p\n").ok()
    assert sorted(consumed.lines) == sorted(f"{topic}/{index}" for topic in (one, two) for index in (0, 2))
    wrong = runnel("consume", one, "-p", "9")
    assert wrong.errors == f"Error: topic '{one}' has no partition 9: it has partitions 0 to 2\n"


def test_a_bad_line_stops_after_what_came_before_it(runnel: Runnel, topic: str) -> None:
    refused = runnel("produce", topic, "-i", "json", "-q", stdin=b'{"value": "good"}\n{bad\n{"value": "never"}\n')
    assert refused.exit_code == 1
    assert refused.errors.startswith("Error: line 2 is not a record: ")
    assert refused.errors.count("\n") == 1
    assert runnel("consume", topic, "-e", "-q").ok().text == "good\n"


def test_a_record_that_is_too_large_says_what_to_do(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    runnel("topic", "create", name, "-c", "max.message.bytes=1000").ok()
    refused = runnel("produce", name, "-q", stdin=b"x" * 5000)
    assert refused.exit_code == 1
    assert "max.message.bytes" in refused.errors or "MESSAGE_TOO_LARGE" in refused.errors
    assert refused.errors.count("\n") == 1


def test_a_partition_that_the_topic_lacks(runnel: Runnel, topic: str) -> None:
    refused = runnel("produce", topic, "-p", "7", "-v", "x", "-q")
    assert refused.errors == f"Error: topic '{topic}' has no partition 7: it has 1, counted from 0\n"


def test_a_large_input_arrives_whole(runnel: Runnel, new_name: NewName) -> None:
    name = new_name()
    runnel("topic", "create", name, "-p", "3").ok()
    lines = [b"%d:%0100d" % (number % 7, number) for number in range(20_000)]
    runnel("produce", name, "-K", ":", "--batch-bytes", "16384", stdin=b"\n".join(lines)).ok()
    consumed = runnel("consume", name, "-e", "-K", ":").ok().output.splitlines()
    assert sorted(consumed) == sorted(lines)
    for key in range(7):
        own = [line for line in consumed if line.startswith(b"%d:" % key)]
        assert own == sorted(own)
