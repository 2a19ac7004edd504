"""`runnel lake verify` on tables that somebody has changed: every way ends in exit code 1 and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from runnel.cli.main import cli
from runnel.spark.lake.options import TABLE_FORMATS, Destination, parse_lake_options
from runnel.testing.broker import Broker
from spark.lake.test_lake_tables import commit
from spark.lake.test_lake_verify import RECORDS, rows
from spark.lake.test_lake_verify import topic as topic  # the fixture

Topic = tuple[Broker, str]
Tamper = Callable[[Path, pa.Table], None]


@pytest.fixture(params=TABLE_FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Destination:
    """Equal to its topic, in two files."""
    options = parse_lake_options({"path": str(tmp_path / "t"), "tableFormat": str(request.param), "appId": "app"})
    for number in range(2):
        commit(options, number, rows([n for n in range(RECORDS) if n % 2 == number]))
    return options.destination


def verified(topic: Topic, table: Destination) -> Result:
    whole = f'{{"orders":{{"0":{RECORDS // 2},"1":{RECORDS // 2}}}}}'
    place = ["lake", "verify", table.path, "--format", table.table_format, "--topic", topic[1]]
    return CliRunner().invoke(cli, [*place, "-b", topic[0].bootstrap_servers, "--offsets", whole])


def data_files(table: Destination) -> list[Path]:
    return sorted(path for path in Path(table.path).rglob("part-*.parquet"))


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    there = pq.read_table(path, partitioning=None)
    pq.write_table(change(there), path, compression="zstd")


def test_an_untouched_table_is_equal(topic: Topic, table: Destination) -> None:
    done = verified(topic, table)
    assert (done.exit_code, "equal: offsets and contents compared" in done.output) == (0, True), done.output


def test_a_file_that_is_gone_is_told_by_name(topic: Topic, table: Destination) -> None:
    victim = data_files(table)[0]
    victim.unlink()
    done = verified(topic, table)
    assert done.exit_code == 1
    assert "missing offsets" in done.output or victim.name in done.output, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


def test_a_file_that_is_cut_short_is_told_by_name(topic: Topic, table: Destination) -> None:
    victim = data_files(table)[0]
    victim.write_bytes(victim.read_bytes()[:-40])
    done = verified(topic, table)
    assert done.exit_code == 1
    assert victim.name in done.output, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


def changed_value(there: pa.Table) -> pa.Table:
    values = there.column("value").to_pylist()
    at = next(number for number, value in enumerate(values) if value)
    values[at] = b"x" * len(values[at])
    return there.set_column(
        there.schema.get_field_index("value"), there.schema.field("value"), pa.array(values, pa.binary())
    )


CHANGES: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "one value": (changed_value, "different offsets"),
    "one row less": (lambda there: there.slice(1), "missing offsets 0"),
    "one row twice": (lambda there: pa.concat_tables([there, there.slice(0, 1)]), "duplicated offsets 0"),
    "one offset moved": (
        lambda there: there.set_column(
            there.schema.get_field_index("offset"),
            there.schema.field("offset"),
            pc.if_else(pc.equal(there["offset"], 7), pa.scalar(8, pa.int64()), there["offset"]),
        ),
        "missing offsets 7",
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_file_that_was_rewritten_is_not_equal(topic: Topic, table: Destination, change: str) -> None:
    """Formats that note a file's size may refuse to read one of another size: that is an answer as well."""
    how, said = CHANGES[change]
    victim = data_files(table)[0]
    rewritten(victim, how)
    done = verified(topic, table)
    assert done.exit_code == 1
    assert said in done.output or victim.name in done.output, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
