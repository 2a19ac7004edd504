"""Lake tables that somebody else has made, changed or reads."""

from __future__ import annotations

import datetime
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.lake.test_lake_hard_cases import options_of, people
from tests.spark.lake.test_lake_tables import commit, content

from runnel.spark.errors import OptionError
from runnel.spark.lake.columns import nullable
from runnel.spark.lake.options import TABLE_FORMATS, parse_lake_options
from runnel.spark.lake.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_delta_rs_finds_every_row_by_every_column(tmp_path: Path) -> None:
    """It takes bounds that are missing beside others for a column without values: also of files of fewer columns."""
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    columns = {
        "text": pa.array(["a", "b"]),
        "number": pa.array([1, None]),
        "nothing": pa.array([None, None], pa.int32()),
        "fraction": pa.array([1.5, float("nan")]),
        "decimal": pa.array([Decimal("1.5"), None], pa.decimal128(38, 18)),
        "truth": pa.array([True, None]),
        "time": pa.array([datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC), None], pa.timestamp("us", "UTC")),
        "date": pa.array([3_000_000, None], pa.int32()).cast(pa.date32()),  # of the year 10183
        "a,b": pa.array([7, None]),
    }
    batch = pa.record_batch(list(columns.values()), list(columns))
    options = options_of(tmp_path, "delta")
    commit(options, 0, batch)
    commit(options, 1, batch.drop_columns(["number", "text"]))
    commit(options, 2, batch.append_column("later", pa.array([1, 2])))

    def found() -> dict[str, int]:
        dataset = DeltaTable(options.destination.path).to_pyarrow_dataset()
        return {
            name: dataset.to_table(filter=ds.field(name) == values[0], columns=["time"]).num_rows
            + dataset.to_table(filter=ds.field(name).is_null(), columns=["time"]).num_rows
            for name, values in columns.items()
        }

    nan = 3  # is neither null nor equal to anything
    wanted = dict.fromkeys(columns, 6) | {"text": 4, "fraction": 6 - nan}
    assert found() == wanted
    open_table(options.destination).compact(1 << 20)
    assert found() == wanted


@pytest.mark.parametrize("name", ["a/b", "a=b", "a%20b", "a b", "a:b", "a#b"])
@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_partition_columns_of_any_name(tmp_path: Path, table_format: str, name: str) -> None:
    options = options_of(tmp_path, table_format, partitionBy=name)
    commit(options, 0, pa.record_batch([pa.array([0, 1]), pa.array(["x/y", None])], ["offset", name]))
    assert sorted(row[name] or "" for row in content(options, ("offset", name))) == ["", "x/y"]


def test_spark_reads_a_parquet_folder_as_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    """Folders are named as Spark names them, whatever their values are; empty text becomes null, as there."""
    values = ["ü", "日本", "😀", "a b", "a/b", "100%", "x=y", "%C3%BC", "..", "nl\n", "\\", "\x7f", "\x85", "", None]
    for name in ("place", "größe %"):
        options = options_of(tmp_path / name, "parquet", partitionBy=name)
        commit(options, 0, pa.record_batch([pa.array(range(len(values))), pa.array(values)], ["offset", name]))
        wanted = [value or None for value in values]
        assert [row[name] for row in content(options, ("offset", name))] == wanted
        found = spark.read.parquet(options.destination.path).orderBy("offset").collect()
        assert [row[name] for row in found] == wanted


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_partition_values_that_are_not_ascii(tmp_path: Path, table_format: str) -> None:
    values = ["ü", "日本", "😀", "%C3%BC"]
    options = options_of(tmp_path, table_format, partitionBy="größe")
    commit(options, 0, pa.record_batch([pa.array(range(len(values))), pa.array(values)], ["offset", "größe"]))
    assert [row["größe"] for row in content(options, ("offset", "größe"))] == values
    open_table(options.destination).compact(1 << 20)
    assert [row["größe"] for row in content(options, ("offset", "größe"))] == values


def test_an_iceberg_column_that_was_renamed_is_not_made_again(tmp_path: Path) -> None:
    """Files know their columns by name: the new one would take the values of the old one."""
    options = options_of(tmp_path, "iceberg")
    commit(options, 0, people(("Ada", "GB", 0)))
    with open_table(options.destination)._open().update_schema() as update:  # type: ignore[attr-defined]
        update.rename_column("country", "nation")
    with pytest.raises(OptionError, match=r"column 'country' of .* was renamed or dropped"):
        commit(options, 1, people(("Bob", "NZ", 1)))
    assert content(options, ("offset", "nation")) == [{"offset": 0, "nation": "GB"}]


def test_an_iceberg_table_laid_out_by_a_transform_is_refused(tmp_path: Path) -> None:
    from pyiceberg.transforms import BucketTransform

    options = options_of(tmp_path, "iceberg")
    commit(options, 0, people(("Ada", "GB", 0)))
    with open_table(options.destination)._open().update_spec() as update:  # type: ignore[attr-defined]
        update.add_field("country", BucketTransform(4))
    with pytest.raises(OptionError, match=r"partitioned by country_bucket_4, a bucket\[4\] of a column"):
        commit(options, 1, people(("Bob", "NZ", 1)))


def test_what_would_not_be_checked_is_refused(tmp_path: Path) -> None:
    from deltalake import DeltaTable, Schema

    options = options_of(tmp_path, "delta")
    commit(options, 0, people(("Ada", "GB", 0)))
    DeltaTable(options.destination.path).alter.add_constraint({"positive": "offset >= 0"})
    with pytest.raises(OptionError, match="has the constraint 'positive'"):
        commit(options, 1, people(("Bob", "NZ", -1)))
    strict = options_of(tmp_path / "strict", "delta")
    schema = pa.schema(
        [pa.field("name", pa.string(), nullable=False), ("country", pa.string()), ("offset", pa.int64())]
    )
    DeltaTable.create(strict.destination.path, Schema.from_arrow(schema))
    with pytest.raises(OptionError, match=r"column 'name' of .* must not be null"):
        commit(strict, 0, people(("Ada", "GB", 0)))


STRICT = pa.field("x", pa.int64(), nullable=False)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (pa.struct([STRICT]), "deep.x"),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), "deep.element"),
        (pa.list_(pa.struct([STRICT])), "deep.element.x"),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), "deep.value"),
        (pa.map_(pa.string(), pa.struct([STRICT])), "deep.value.x"),
    ],
)
@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_what_must_not_be_null_deep_in_a_column_is_refused(
    tmp_path: Path, table_format: str, kind: pa.DataType, named: str
) -> None:
    schema = pa.schema([("offset", pa.int64()), pa.field("deep", kind)])
    table = open_table(options_of(tmp_path, table_format).destination)
    with suppress(OptionError):  # the table is made; some formats look at it at once
        table.ensure(schema, ())
    assert table.exists()
    with pytest.raises(OptionError, match=rf"column '{named}' of .* must not be null"):
        table.ensure(nullable(schema), ())


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_keys_of_maps_are_never_null_and_that_is_no_rule(tmp_path: Path, table_format: str) -> None:
    schema = pa.schema([("offset", pa.int64()), ("deep", pa.map_(pa.string(), pa.list_(pa.int64())))])
    table = open_table(options_of(tmp_path, table_format).destination)
    table.ensure(schema, ())
    assert table.lacking(schema) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"delta.generationExpression": "offset + 1"},
        {"delta.invariants": '{"expression":{"expression":"x > 10"}}'},
        {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False},
    ],
)
@pytest.mark.parametrize("is_nested", [False, True])
def test_rules_of_delta_columns_are_refused(tmp_path: Path, metadata: dict[str, object], is_nested: bool) -> None:
    from deltalake import DeltaTable, Field, Schema
    from deltalake.schema import ArrayType, StructType

    options = options_of(tmp_path, "delta")
    ruled = Field("x", "long", metadata=metadata)
    field = Field("deep", ArrayType(StructType([ruled]), contains_null=True)) if is_nested else ruled
    DeltaTable.create(options.destination.path, Schema([Field("offset", "long"), field]))
    (rule, *_) = metadata
    with pytest.raises(OptionError, match=f"has the rule {rule.rsplit('.', 1)[0]}"):
        open_table(options.destination).lacking(pa.schema([("offset", pa.int64())]))


def test_an_empty_text_is_null_to_all_who_read_a_delta_tables_partitions(tmp_path: Path) -> None:
    from deltalake import DeltaTable, QueryBuilder

    options = options_of(tmp_path, "delta", partitionBy="place")
    commit(options, 0, pa.record_batch([pa.array([0, 1]), pa.array(["", None])], ["offset", "place"]))
    table = DeltaTable(options.destination.path)
    counted = QueryBuilder().register("t", table).execute("select count(*) n from t where place is null").read_all()
    assert pa.table(counted).to_pylist() == [{"n": 2}]
    assert content(options, ("offset", "place")) == [{"offset": n, "place": None} for n in (0, 1)]


@pytest.mark.parametrize(("table_format", "name"), [("delta", "a%20b"), ("iceberg", "a#b"), ("iceberg", "a?b")])
def test_a_path_that_the_libraries_misread_is_refused(tmp_path: Path, table_format: str, name: str) -> None:
    with pytest.raises(OptionError, match="must not hold"):
        parse_lake_options({"path": str(tmp_path / name), "tableFormat": table_format})
