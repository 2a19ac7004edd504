"""What a failed flow names: the record itself, also behind the tables that lie between the flow and the topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark.records import Sent, produce

if TYPE_CHECKING:
    from runnel.spark.pipelines import FlowFailure, PipelineSession

Open = Callable[..., "PipelineSession"]
Write = Callable[[Mapping[str, str]], Path]

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as sql
spark = SparkSession.active()

@dp.temporary_view
def behind_topic():
    records = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
    return records.option("subscribe", "{topic}").option("startingOffsets", "earliest").load()

@dp.table
def behind_raw():
    return spark.readStream.table("behind_topic").selectExpr("string(value) as text", "partition", "offset")

@dp.table
def behind_texts():
    return spark.readStream.table("behind_raw").select("text")

@dp.temporary_view
def behind_view():
    return spark.readStream.table("spark_catalog.default.behind_raw").where("text != 'nine'")

@dp.table
def via_python():
    return spark.readStream.table("behind_view").select(sql.col("text").cast("int").alias("number"))

@dp.table
def via_text():
    return spark.sql("SELECT 'STREAM behind_raw' AS note, * FROM STREAM(behind_raw)").selectExpr("int(text) AS number")

@dp.table
def via_texts():
    return spark.readStream.table("behind_texts").selectExpr("int(text) as number")

@dp.materialized_view
def in_python():
    return spark.read.table("behind_raw").groupBy("partition").agg(sql.sum(sql.col("text").cast("int")).alias("sum"))
"""
SQL = """
CREATE TEMPORARY VIEW behind_sql_view AS SELECT text FROM STREAM behind_view;
CREATE STREAMING TABLE via_sql AS SELECT int(text) AS number FROM STREAM behind_sql_view;

CREATE STREAMING TABLE direct_sql AS SELECT int(string(value)) AS number FROM STREAM behind_topic;

CREATE MATERIALIZED VIEW in_sql AS
WITH numbers AS (SELECT int(text) AS number, partition, ';' AS mark FROM default.behind_raw)
SELECT numbers.number, others.number AS other FROM numbers JOIN numbers AS others USING (partition);
"""
SUM = "CREATE MATERIALIZED VIEW in_sum AS SELECT int(2147483600) + int(sum(length(text))) AS total FROM behind_texts;"
"""Too much for all rows, and for no row alone."""


def test_a_flow_behind_tables_names_the_record_or_the_row(
    open_project: Open,
    write_project: Write,
    bootstrap: str,
    new_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(2)
    produce(bootstrap, topic, [Sent(b"%d" % number, partition=number % 2) for number in range(60)])
    project = write_project({"numbers.py": PYTHON.format(bootstrap=bootstrap, topic=topic), "numbers.sql": SQL})
    session = open_project(project)
    good = session.run()
    assert good.ok, good.error
    produce(bootstrap, topic, [Sent(b"7", partition=1), Sent(b"seven", partition=1), Sent(b"8", partition=1)])
    (project / "transformations" / "sum.sql").write_text(SUM)
    failures = {failure.flow: failure for failure in session.run().failures}

    at = f"[at {topic}/1 offset 31"
    for flow in ("via_python", "via_text", "via_sql", "in_python", "in_sql"):
        assert _place(failures.pop(flow)) == f"{at}, a row of behind_raw: text=seven]", flow
    assert _place(failures.pop("direct_sql")) == f"{at}: seven]"
    assert _place(failures.pop("via_texts")) == "[at a row of behind_texts: text=seven]"
    assert "[at" not in str(failures.pop("in_sum"))
    assert failures == {}
    assert not any(table.isTemporary for table in session.spark.catalog.listTables())

    monkeypatch.setattr("runnel.spark.pipelines.failed_rows.SEARCH_S_MAX", 0.0)
    assert _explained(session, "in_sql").table is None, "not in time"
    monkeypatch.setattr("runnel.spark.pipelines.failures.search", None)
    assert _explained(session, "via_sql").batch_id == 1, "whatever goes wrong, what is known is told"


def _place(failure: FlowFailure) -> str:
    assert "CAST_INVALID_INPUT" in failure.message
    return "[at" + str(failure).rpartition("[at")[2]


def _explained(session: PipelineSession, flow: str) -> FlowFailure:
    from runnel.spark.pipelines.definitions import read_definitions
    from runnel.spark.pipelines.failures import explain

    with read_definitions(session.project, session.spark) as noted:
        return explain(session.project, session.spark, noted, flow, "it failed")


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (lambda offsets: 7 in offsets, 7),
        (lambda offsets: {6, 9} & set(offsets), 6),
        (lambda offsets: len(offsets) > 2, None),
        (lambda offsets: False, None),
        (lambda offsets: True, None),  # a broker that is gone, or what a batch may not do and a stream may
    ],
)
def test_only_what_fails_by_itself_is_named(bad: Callable[[range], bool], found: int | None) -> None:
    from runnel.spark.pipelines.failed_rows import first_failing

    assert first_failing(lambda first, until: bool(bad(range(first, until))), 3, 13) == found


QUERIES = """
-- CREATE STREAMING TABLE a_remark AS SELECT 1; no more.
CREATE STREAMING TABLE filled COMMENT 'AS SELECT; all' AS SELECT 'STREAM raw' AS note FROM STREAM shop.raw WATERMARK w;
CREATE STREAMING TABLE raw;
CREATE FLOW into_raw AS INSERT INTO shop.raw BY NAME (SELECT raw.x, `spark_catalog`.shop.raw.y FROM STREAM ( seen ));
CREATE TEMPORARY VIEW seen AS SELECT seen FROM other.raw;
"""


def test_queries_of_sql_files(write_project: Write) -> None:
    from runnel.spark.pipelines.definitions import Definitions
    from runnel.spark.pipelines.project import load_project
    from runnel.spark.pipelines.queries import read_queries

    folder = write_project({"queries.sql": QUERIES})
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("database: shop\n")
    queries = read_queries(load_project(folder), Definitions("graph"))
    found = {name.table: queries.as_batch(relation, dict).sql.query for name, relation in queries.by_flow.items()}
    assert found == {
        "filled": "SELECT 'STREAM raw' AS note FROM `raw` WATERMARK w",
        "into_raw": "(SELECT `raw`.x, `raw`.y FROM seen)",
        "seen": "SELECT seen FROM other.raw",
    }
    query = queries.of_flow("shop.into_raw")
    assert query is not None
    assert query.is_stream
    assert [str(name) for name in query.views] == ["spark_catalog.shop.seen"]
    assert [str(name) for name in query.tables] == ["spark_catalog.shop.raw"]


def test_the_files_of_the_batch_that_failed(tmp_path: Path) -> None:
    from runnel.spark.pipelines.checkpoints import failed_batch

    checkpoint = tmp_path / "_checkpoints" / "spark_catalog" / "default" / "table" / "flow" / "0"
    for folder in ("offsets", "commits", "sources/1"):
        (checkpoint / folder).mkdir(parents=True)
    for batch_id, last in ((3, 8), (4, 10)):
        offsets = ['{"topic":{"0":7}}', json.dumps({"logOffset": last})]
        (checkpoint / "offsets" / str(batch_id)).write_text("\n".join(["v1", "{}", *offsets]))
    (checkpoint / "commits" / "3").touch()
    for name, numbers in (("8", [8]), ("9.compact", range(10)), ("10", [10])):
        notes = [json.dumps({"path": f"file:///a%20b/{number}.parquet", "batchId": number}) for number in numbers]
        (checkpoint / "sources" / "1" / name).write_text("\n".join(["v1", *notes]))
    batch = failed_batch(tmp_path, "flow")
    assert batch is not None
    assert batch.batch_id == 4
    assert batch.files == {"9.parquet", "10.parquet"}
