"""Streaming tables and flows of SQL files, in whatever way Spark has for it, and their names. No Spark runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from runnel.spark.pipelines.file_tables import resolve
from runnel.spark.pipelines.project import load_project
from runnel.spark.pipelines.sql_files import find_definition, refreshed_names, streamed_by, streaming_definitions

Write = Callable[[Mapping[str, str]], Path]
TABLE = "CREATE STREAMING TABLE t AS SELECT 1;\n"


@pytest.mark.parametrize(
    ("text", "tables", "flows"),
    [
        (TABLE, [("t", None)], [("t", "t", 1)]),
        ("create or refresh streaming table if not exists a.b as (with x as (select 1) select *)", [("a.b", None)], 1),
        ("CREATE STREAMING TABLE `a-b`.`x` USING delta;", [("`a-b`.`x`", "delta")], 0),
        ("CREATE STREAMING TABLE t (a INT, b INT GENERATED ALWAYS AS (a + 1)) USING orc", [("t", "orc")], 0),
        ("CREATE STREAMING TABLE t COMMENT 'joined using ids; as select' AS FROM s", [("t", None)], 1),
        ("CREATE STREAMING TABLE t AS SELECT * FROM a JOIN b USING (id)", [("t", None)], 1),
        ("CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1", [], [("f", "t", 1)]),
        ("\n\nCREATE FLOW f COMMENT 'it''s' AS INSERT INTO TABLE db.t SELECT 1", [], [("f", "db.t", 3)]),
        ("CREATE FLOW f AS AUTO CDC INTO db.t FROM STREAM s KEYS (k) SEQUENCE BY o", [], [("f", "db.t", 1)]),
        ("\nCREATE STREAMING TABLE t USING orc FLOW AUTO CDC FROM STREAM s KEYS (k)", [("t", "orc")], [("t", "t", 2)]),
        ("-- CREATE FLOW f AS INSERT INTO t SELECT 1\n" + TABLE, [("t", None)], [("t", "t", 2)]),
        ("/* CREATE FLOW f AS\nINSERT INTO t SELECT 1 */\n" + TABLE, [("t", None)], [("t", "t", 3)]),
        ("CREATE MATERIALIZED VIEW v AS SELECT 'CREATE FLOW f AS INSERT INTO t SELECT 1'", [], 0),
    ],
)
def test_definitions(write_project: Write, text: str, tables: list[object], flows: object) -> None:
    project = load_project(write_project({"a.sql": text}))
    found_tables, found_flows = streaming_definitions(project)
    assert [(table.name, table.table_format) for table in found_tables] == tables
    found = [(flow.name, flow.target, flow.line) for flow in found_flows]
    assert (len(found) if isinstance(flows, int) else found) == flows


def test_where_a_name_is_defined(write_project: Write) -> None:
    text = "-- CREATE VIEW revenue\nCREATE MATERIALIZED VIEW orders AS SELECT 1;\nCREATE VIEW revenue AS SELECT 2;\n"
    project = load_project(write_project({"a.sql": text}))
    assert find_definition(project, "revenue") == ("transformations/a.sql", 3)
    assert find_definition(project, "nothing") == (None, None)


def test_a_name_that_is_used_is_not_defined_there(write_project: Write) -> None:
    used = "CREATE MATERIALIZED VIEW revenue AS SELECT sum(total) FROM orders;"
    defined = "\nCREATE OR REFRESH STREAMING TABLE IF NOT EXISTS db.`Orders` AS SELECT 1;"
    project = load_project(write_project({"a.sql": used, "b.sql": defined}))
    assert find_definition(project, "orders") == ("transformations/b.sql", 2)
    assert find_definition(project, "total") == (None, None)


@pytest.mark.parametrize(
    ("name", "resolved", "shown"),
    [
        ("Orders", ("spark_catalog", "sales", "orders"), "spark_catalog.sales.orders"),
        ("sales.orders", ("spark_catalog", "sales", "orders"), "spark_catalog.sales.orders"),
        ("default.orders", ("spark_catalog", "default", "orders"), "orders"),
        ("lake.`a-b` . c", ("lake", "a-b", "c"), "lake.`a-b`.c"),
    ],
)
def test_names_are_resolved_as_spark_does(
    write_project: Write, name: str, resolved: tuple[str, ...], shown: str
) -> None:
    folder = write_project({"a.sql": TABLE})
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("database: sales\n")
    found = resolve(load_project(folder), name)
    assert (found, str(found)) == (resolved, shown)


def test_what_is_read_as_a_stream(write_project: Write) -> None:
    text = """
    CREATE STREAMING TABLE a AS SELECT * FROM STREAM(b) JOIN stream c USING (id); -- STREAM no
    CREATE FLOW f AS INSERT INTO t BY NAME SELECT 'STREAM x' FROM STREAM `d`.`e`;
    CREATE FLOW g AS AUTO CDC INTO u FROM STREAM h KEYS (k) SEQUENCE BY o;
    CREATE MATERIALIZED VIEW v AS SELECT * FROM a;
    """
    project = load_project(write_project({"one.sql": text}))
    assert list(streamed_by(project)) == [("a", ["b", "c"]), ("t", ["`d`.`e`"]), ("u", ["h"]), ("v", [])]
    assert list(refreshed_names(project)) == ["a", "v"]
