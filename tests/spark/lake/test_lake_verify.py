"""`runnel lake verify` on a real broker and real tables: equal only if every record is there once, unchanged."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.spark.lake.test_lake_tables import commit, parse_lake_options

from runnel.cli.main import cli
from runnel.client.metadata import TopicPartition
from runnel.spark.errors import OptionError
from runnel.spark.lake.options import TABLE_FORMATS, Destination
from runnel.spark.lake.tables import Upsert
from runnel.spark.lake.verify import Proof, Verdict, verify
from runnel.testing.broker import Broker

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
NOW = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
RECORDS = 300


@pytest.fixture(scope="module")
def topic() -> Iterator[tuple[Broker, str]]:
    from confluent_kafka import Producer

    with Broker() as broker:
        broker.create_topic("orders", partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("orders", key=_key(number), value=_value(number), partition=number % 2)
        assert producer.flush(30) == 0
        yield broker, "orders"


def _key(number: int) -> bytes | None:
    return None if number % 10 == 0 else f"k{number}".encode()


def _value(number: int) -> bytes | None:
    return None if number % 25 == 0 else b"v%d" % number


def rows(numbers: list[int]) -> pa.RecordBatch:
    columns = [
        [_key(n) for n in numbers],
        [_value(n) for n in numbers],
        ["orders"] * len(numbers),
        [n % 2 for n in numbers],
        [n // 2 for n in numbers],
        [NOW] * len(numbers),
    ]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def made(path: Path, numbers: list[int], table_format: str = "delta") -> Destination:
    options = parse_lake_options({"path": str(path), "tableFormat": table_format, "appId": "app"})
    commit(options, 0, rows(numbers))
    return options.destination


WHOLE = {TopicPartition("orders", 0): RECORDS // 2, TopicPartition("orders", 1): RECORDS // 2}


def compared(
    topic: tuple[Broker, str],
    table: Destination,
    dead: Destination | None = None,
    until: dict[TopicPartition, int] | None = WHOLE,
) -> Verdict:
    source = {"kafka.bootstrap.servers": topic[0].bootstrap_servers, "subscribe": topic[1]}
    return verify(table, dead, source, until=until)


@pytest.mark.parametrize("table_format", ["delta", "iceberg", "parquet"])
def test_a_whole_copy_is_equal(topic: tuple[Broker, str], tmp_path: Path, table_format: str) -> None:
    verdict = compared(topic, made(tmp_path / "t", list(range(RECORDS)), table_format))
    assert verdict.holds
    assert verdict.compares_content
    assert [(p.topic_records, p.table_rows) for p in verdict.proofs] == [(150, 150), (150, 150)]


def test_dead_letters_count_as_there(topic: tuple[Broker, str], tmp_path: Path) -> None:
    good = made(tmp_path / "good", [n for n in range(RECORDS) if n % 7])
    assert not compared(topic, good).holds
    assert compared(topic, good, made(tmp_path / "dead", [n for n in range(RECORDS) if n % 7 == 0])).holds


def test_gaps_and_a_missing_end_are_named(topic: tuple[Broker, str], tmp_path: Path) -> None:
    verdict = compared(topic, made(tmp_path / "t", [n for n in range(RECORDS) if n not in (10, 13, RECORDS - 1)]))
    assert [proof.missing for proof in verdict.proofs] == [[5], [6, RECORDS // 2 - 1]]


@pytest.mark.parametrize("numbers", [[], list(range(0, RECORDS, 2))], ids=["no row", "one partition"])
def test_a_partition_of_which_the_table_has_nothing_is_missing(
    topic: tuple[Broker, str], tmp_path: Path, numbers: list[int]
) -> None:
    verdict = compared(topic, made(tmp_path / "t", numbers), until=None)
    assert not verdict.holds
    assert [len(proof.missing) for proof in verdict.proofs] == [0 if numbers else 150, 150]


def test_without_offsets_a_table_may_be_behind(topic: tuple[Broker, str], tmp_path: Path) -> None:
    verdict = compared(topic, made(tmp_path / "t", list(range(100))), until=None)
    assert verdict.holds
    assert [proof.until for proof in verdict.proofs] == [50, 50]


def test_minus_one_is_the_end(topic: tuple[Broker, str], tmp_path: Path) -> None:
    until = dict.fromkeys(WHOLE, -1)
    assert [proof.until for proof in compared(topic, made(tmp_path / "t", [0, 1]), until=until).proofs] == [150, 150]


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (
            {TopicPartition("orders", 0): 150},
            r"name every partition .* they name orders/0; there are orders/0, orders/1",
        ),
        ({TopicPartition("odrers", 0): 150}, r"they name odrers/0; there are orders/0, orders/1"),
        ({**WHOLE, TopicPartition("orders", 1): 151}, r"offset 151 of orders/1 is not in the topic, which ends at 150"),
        ({**WHOLE, TopicPartition("orders", 1): -7}, r"offset -7 of orders/1 is not in the topic"),
    ],
    ids=["one of two", "misspelt", "after the end", "negative"],
)
def test_offsets_that_would_compare_less_than_they_say_are_refused(
    topic: tuple[Broker, str], tmp_path: Path, until: dict[TopicPartition, int], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        compared(topic, made(tmp_path / "t", [0, 1]), until=until)


def test_duplicates_are_named(topic: tuple[Broker, str], tmp_path: Path) -> None:
    verdict = compared(topic, made(tmp_path / "t", [*range(RECORDS), 4, 4, 9]))
    assert [proof.duplicated for proof in verdict.proofs] == [[2], [4]]


def test_changed_contents_and_unknown_rows_are_named(topic: tuple[Broker, str], tmp_path: Path) -> None:
    batch = rows([n for n in range(RECORDS) if n != 6])
    wrong = rows([6]).set_column(1, "value", pa.array([b"forged"], pa.binary()))
    options = parse_lake_options({"path": str(tmp_path / "t"), "appId": "app"})
    commit(options, 0, batch)
    commit(options, 1, wrong)
    commit(options, 2, rows([RECORDS + 50]))
    verdict = compared(topic, options.destination)
    assert [proof.different for proof in verdict.proofs] == [[3], []]
    assert verdict.proofs[0].unexpected == [], "beyond the vector is not compared"


def test_the_command_says_so_in_words_json_and_exit_code(topic: tuple[Broker, str], tmp_path: Path) -> None:
    made(tmp_path / "t", list(range(RECORDS)))
    made(tmp_path / "short", list(range(RECORDS - 10, RECORDS)))
    server = ["-b", topic[0].bootstrap_servers, "--topic", "orders"]
    good = CliRunner().invoke(cli, ["lake", "verify", str(tmp_path / "t"), *server])
    assert (good.exit_code, "equal: offsets and contents compared" in good.output) == (0, True)
    bad = CliRunner().invoke(cli, ["lake", "verify", str(tmp_path / "short"), *server, "--json"])
    assert bad.exit_code == 1
    document = json.loads(bad.stdout)
    assert document["equal"] is False
    assert document["partitions"][0]["missing"][:3] == [0, 1, 2]


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
@pytest.mark.parametrize(
    "verb", [("info",), ("compact",), ("expire", "--days", "3"), ("verify", "--topic", "t")], ids=lambda verb: verb[0]
)
def test_a_table_that_is_not_there_is_told_and_not_made(tmp_path: Path, table_format: str, verb: tuple[str]) -> None:
    path = tmp_path / "nothing"
    done = CliRunner().invoke(cli, ["lake", verb[0], str(path), "--format", table_format, *verb[1:]])
    assert done.exit_code == 1
    assert done.output == f"Error: there is no {table_format} table at {path}: look at path and format\n"
    assert not path.exists()


@pytest.mark.parametrize("verb", [("info",), ("compact",), ("verify", "--topic", "t")], ids=lambda verb: verb[0])
@pytest.mark.parametrize(
    ("table_format", "damaged"), [("delta", "_delta_log/00000000000000000000.json"), ("iceberg", "catalog.db")]
)
def test_a_table_whose_books_are_damaged_is_told_in_one_line(
    tmp_path: Path, table_format: str, damaged: str, verb: tuple[str]
) -> None:
    (tmp_path / damaged).parent.mkdir(exist_ok=True)
    (tmp_path / damaged).write_text("no longer what it was\n")
    done = CliRunner().invoke(cli, ["lake", verb[0], str(tmp_path), "--format", table_format, *verb[1:]])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {tmp_path}: ")
    assert done.output.count("\n") == 1, done.output


def test_a_broker_is_waited_for_as_long_as_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own patience, a minute without a word, is for queries."""
    from runnel.spark.lake import verify as module

    asked: dict[str, str] = {}

    def compare(_table: object, _dead: object, source: dict[str, str], **more: object) -> Verdict:
        asked.update(source)
        return Verdict([], True)

    monkeypatch.setattr(module, "verify", compare)
    for more, timeout_ms in (((), "10000"), (("--timeout", "0.5"), "500"), (("--timeout", "1e300"), "2147483647")):
        done = CliRunner().invoke(cli, ["lake", "verify", str(tmp_path), "--topic", "t", *more])
        assert done.exit_code == 0, done
        assert {asked[f"kafka.{name}.timeout.ms"] for name in ("request", "default.api")} == {timeout_ms}


def replaced(path: Path, **columns: list[object]) -> Destination:
    """A table of the first two records, with other columns."""
    options = parse_lake_options({"path": str(path), "appId": "app"})
    batch = rows([0, 1])
    for name, values in columns.items():
        batch = batch.drop_columns([name]).append_column(name, pa.array(values))
    commit(options, 0, batch)
    return options.destination


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_data_file_that_is_gone_is_told_by_its_name(
    topic: tuple[Broker, str], tmp_path: Path, table_format: str
) -> None:
    destination = made(tmp_path / "t", list(range(RECORDS)), table_format)
    gone = next(path for path in tmp_path.rglob("part-*.parquet"))
    gone.unlink()
    arguments = ["--format", table_format, "--topic", "orders", "-b", topic[0].bootstrap_servers]
    done = CliRunner().invoke(cli, ["lake", "verify", destination.path, *arguments])
    assert done.exit_code == 1
    assert gone.name in done.output
    assert "please report" not in done.output


def test_a_table_of_another_topic_is_not_called_equal(topic: tuple[Broker, str], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no row of orders: its rows are of payments"):
        compared(topic, replaced(tmp_path / "t", topic=["payments", "payments"]))


def test_rows_of_a_partition_that_the_topic_has_not_are_unexpected(topic: tuple[Broker, str], tmp_path: Path) -> None:
    verdict = compared(topic, replaced(tmp_path / "t", partition=[0, 7]))
    assert not verdict.holds
    assert {proof.target.partition: proof.unexpected for proof in verdict.proofs} == {0: [], 1: [], 7: [0]}


def test_values_that_were_decoded_are_compared_by_offset(topic: tuple[Broker, str], tmp_path: Path) -> None:
    verdict = compared(topic, replaced(tmp_path / "t", value=[1.5, 2.5]))
    assert not verdict.compares_content
    assert [proof.different for proof in verdict.proofs] == [[], []]


# What would be a proof of nothing ----------------------------------------------------------------------------------


def with_rows(path: Path, *more: dict[str, object]) -> Destination:
    """A whole copy, and these rows."""
    options = parse_lake_options({"path": str(path), "appId": "app"})
    first = rows([0]).to_pylist()[0]
    commit(options, 0, rows(list(range(RECORDS))))
    commit(options, 1, pa.RecordBatch.from_pylist([{**first, **row} for row in more], SCHEMA))
    return options.destination


def up_to_the_table(topic: tuple[Broker, str], table: Destination, *, is_compacted: bool = False) -> Verdict:
    source = {"kafka.bootstrap.servers": topic[0].bootstrap_servers, "subscribe": topic[1]}
    return verify(table, None, source, is_compacted=is_compacted)


@pytest.mark.parametrize("column", ["topic", "partition", "offset"])
def test_rows_that_are_of_no_record_are_told(topic: tuple[Broker, str], tmp_path: Path, column: str) -> None:
    with pytest.raises(OptionError, match="rows without topic, partition or offset"):
        up_to_the_table(topic, with_rows(tmp_path / "t", {column: None}))


@pytest.mark.parametrize("is_compacted", [False, True])
def test_offsets_that_the_topic_never_had_are_unexpected(
    topic: tuple[Broker, str], tmp_path: Path, is_compacted: bool
) -> None:
    table = with_rows(tmp_path / "t", {"offset": -4}, {"offset": RECORDS + 7})
    verdict = up_to_the_table(topic, table, is_compacted=is_compacted)
    assert [proof.unexpected for proof in verdict.proofs] == [[-4, RECORDS + 7], []]


def test_keys_and_values_that_end_elsewhere_differ() -> None:
    from runnel.spark.lake.verify import _checksum

    pairs = [(b"a\x01", b"b"), (b"a", b"\x01b"), (None, b"b"), (b"", b"b"), (b"b", None), (b"b", b"")]
    assert len({_checksum(*pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize("table_format", ["delta", "parquet"])  # pyiceberg commits no such text
def test_what_was_cast_to_text_and_is_none_is_compared(tmp_path: Path, table_format: str) -> None:
    from confluent_kafka import Producer

    with Broker() as broker:
        broker.create_topic("orders", partitions=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", key=b"k", value=b"\xff\xfe")
        assert producer.flush(30) == 0
        batch = pa.RecordBatch.from_pylist(
            [{"key": b"k", "value": b"\xff\xfe", "topic": "orders", "partition": 0, "offset": 0}], SCHEMA
        )
        text = pa.Array.from_buffers(pa.string(), 1, batch["value"].buffers())
        options = parse_lake_options({"path": str(tmp_path / "t"), "tableFormat": table_format, "appId": "app"})
        commit(options, 0, batch.set_column(1, "value", text))
        verdict = up_to_the_table((broker, "orders"), options.destination)
    assert (verdict.holds, verdict.compares_content) == (True, True)


def test_duplicates_are_found_where_the_topic_has_nothing_left() -> None:
    import numpy as np

    from runnel.spark.lake.verify import Records, _compare
    from runnel.spark.reading.ranges import OffsetRange

    def records(*offsets: int) -> Records:
        return Records(np.array(offsets, np.int64), np.zeros(len(offsets), np.uint32))

    row = OffsetRange(TopicPartition("t", 0), 5, 7)
    proof = _compare(row, 7, records(5, 6), records(1, 1, 2, 5, 6), records(), False)
    assert (proof.duplicated, proof.unchecked, proof.missing) == ([1], 3, [])


def test_dead_letters_without_values_are_compared_by_offset(topic: tuple[Broker, str], tmp_path: Path) -> None:
    good = made(tmp_path / "good", list(range(2, RECORDS)))
    verdict = compared(topic, good, replaced(tmp_path / "dead", value=[1.5, 2.5]))
    assert (verdict.holds, verdict.compares_content) == (True, False)


@pytest.mark.parametrize(
    "wrong", [("expire", "--days", "-1"), ("expire", "--days", "999999999"), ("expire", "--unused-hours", "-1"),
              ("expire", "--unused-hours", "inf"), ("compact", "--target-bytes", "0")], ids=" ".join
)  # fmt: skip
def test_numbers_that_would_delete_too_much_or_make_no_sense_are_refused(
    tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    made(tmp_path / "t", [0, 1])
    done = CliRunner().invoke(cli, ["lake", wrong[0], str(tmp_path / "t"), *wrong[1:]])
    assert (done.exit_code, "Invalid value for" in done.output) == (2, True), done.output


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_of_upserts_is_the_newest_record_of_each_key(tmp_path: Path, table_format: str) -> None:
    """Updates and a tombstone, which is the last record; then a row that should have gone, and one that is missing."""
    from confluent_kafka import Producer

    pairs = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2"), (b"c", None)]
    columns = zip(*pairs, strict=True)
    places = [["orders"] * len(pairs), [0] * len(pairs), range(len(pairs)), [NOW] * len(pairs)]
    batch = pa.record_batch(
        [pa.array(list(c), f.type) for c, f in zip([*columns, *places], SCHEMA, strict=True)], SCHEMA
    )
    with Broker() as broker:
        broker.create_topic("orders", partitions=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for key, value in pairs:
            producer.produce("orders", key=key, value=value)
        assert producer.flush(30) == 0
        source = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders"}

        def proof(name: str, rows: pa.RecordBatch, how: Upsert | None) -> Proof:
            given = {"path": str(tmp_path / name), "tableFormat": table_format, "appId": "app"}
            options = parse_lake_options(given)
            commit(options, 0, rows, how=how)
            return verify(options.destination, None, source, is_upserted=True).proofs[0]

        good = proof("good", batch, Upsert(("key",), "offset", "value"))
        assert good.holds
        assert (good.until, good.topic_records, good.table_rows) == (6, 2, 2)
        bad = proof("bad", batch.take(pa.array([0, 4])), None)
        assert (bad.missing, bad.unexpected) == ([2], [0])


@pytest.mark.parametrize("order_column", ["offset", "timestamp"])
def test_keys_that_moved_to_another_partition_are_compared_by_the_order_that_they_were_written_by(
    tmp_path: Path, order_column: str
) -> None:
    """As after partitions were added: what is newer by its time may have the smaller offset. One key is deleted so."""
    from confluent_kafka import Producer

    first = int(NOW.timestamp() * 1000)
    records = [(b"a", b"1", 0), (b"b", b"1", 0), (b"a", b"2", 0), (b"b", b"2", 0), (b"a", b"3", 1), (b"b", None, 1)]
    offsets = [0, 1, 2, 3, 0, 1]
    batch = pa.RecordBatch.from_pylist(
        [
            {
                "key": key, "value": value, "topic": "orders", "partition": partition, "offset": offset,
                "timestamp": NOW + datetime.timedelta(milliseconds=at),
            }
            for at, ((key, value, partition), offset) in enumerate(zip(records, offsets, strict=True))
        ],
        SCHEMA,
    )  # fmt: skip
    options = parse_lake_options({"path": str(tmp_path / "t"), "appId": "app"})
    commit(options, 0, batch, how=Upsert(("key",), order_column, "value"))
    with Broker() as broker:
        broker.create_topic("orders", partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for at, (key, value, partition) in enumerate(records):
            producer.produce("orders", key=key, value=value, partition=partition, timestamp=first + at)
        assert producer.flush(30) == 0
        verb = ["lake", "verify", options.destination.path, "-b", broker.bootstrap_servers, "--topic", "orders"]
        said = {
            by: CliRunner().invoke(cli, [*verb, "--upserted", "--order-column", by]) for by in ("offset", "timestamp")
        }
    for by, done in said.items():
        assert (done.exit_code, "NOT equal" in done.output) == ((0, False) if by == order_column else (1, True)), done


def test_records_that_left_the_topic_before_the_table_had_them_are_told(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    from spark.test_batch_reader import delete_records

    with Broker() as broker:
        broker.create_topic("orders", partitions=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(20):
            producer.produce("orders", value=b"%d" % number)
        assert producer.flush(30) == 0
        table = made(tmp_path / "t", [0, 2, 4, 6, 8])  # offsets 0 to 4 of partition 0
        delete_records(broker.bootstrap_servers, "orders", 0, 12)
        verdict = compared((broker, "orders"), table, until=None)
        assert (verdict.holds, verdict.proofs[0].gone) == (False, 7)
        told = CliRunner().invoke(
            cli, ["lake", "verify", str(tmp_path / "t"), "-b", broker.bootstrap_servers, "--topic", "orders"]
        )
        assert (told.exit_code, "offsets 5 to 11 left the topic" in told.output) == (1, True)
