"""Runs of real pipelines against a real broker: exactly once over restarts, figures, and what a failure names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.topics import read_all
from runnel.spark.pipelines.notes import AlreadyRunning, RunNotes, current_state
from spark.records import Sent, produce

if TYPE_CHECKING:
    from runnel.spark.pipelines import FlowProgress, PipelineSession

Open = Callable[..., "PipelineSession"]
Write = Callable[[Mapping[str, str]], Path]

LAKE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
dp.create_sink("lake", "runnel-lake", {{"path": "{path}"}})
@dp.append_flow(target="lake")
def into_lake():
    return spark.readStream.table("orders").select("id", "total", "timestamp")
"""


def orders(first: int, count: int) -> list[Sent]:
    rows = [{"id": number, "customer": f"c{number % 3}", "total": number} for number in range(first, first + count)]
    return [Sent(json.dumps(row).encode(), partition=row["id"] % 2) for row in rows]  # type: ignore[operator]


def test_the_starter_processes_each_record_once_over_restarts(
    open_project: Open, bootstrap: str, new_topic: Callable[..., str], new_name: Callable[[], str], tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    from runnel.spark.pipelines.starter import make_project

    topic, large = new_topic(2), new_topic(1)
    make_project(tmp_path / "shop", bootstrap)
    definitions = tmp_path / "shop" / "transformations"
    for path in definitions.iterdir():
        text = (
            path.read_text().replace('"subscribe", "orders"', f'"subscribe", "{topic}"').replace("orders-large", large)
        )
        path.write_text(text)
    (definitions / "lake.py").write_text(LAKE.format(path=tmp_path / "lake"))

    produce(bootstrap, topic, [*orders(0, 200), Sent(b"{not json"), Sent(b"{}")])
    session = open_project(tmp_path / "shop")
    assert session.validate() == []
    seen: list[FlowProgress] = []
    result = session.run(on_progress=seen.append)
    assert result.ok, result.error
    assert result.flows["orders"].rows == 202
    assert result.flows["orders"].lag == 0
    assert {progress.flow for progress in seen} == {
        "orders",
        "orders_rejected",
        "revenue",
        "large_orders_flow",
        "into_lake",
    }
    assert result.flows["revenue"].status == "COMPLETED"
    session.close()

    produce(bootstrap, topic, [*orders(200, 50), Sent(b"worse")])
    again = open_project(tmp_path / "shop")
    result = again.run()
    assert result.ok, result.error
    assert result.flows["orders"].rows == 51, "only what is new"
    spark = again.spark
    assert sorted(row.id for row in spark.table("orders").select("id").collect()) == list(range(250))
    assert sorted(row.value for row in spark.table("orders_rejected").collect()) == ["worse", "{not json", "{}"]
    assert spark.table("revenue").selectExpr("sum(orders)").collect()[0][0] == 250
    alerts = [json.loads(message.value())["id"] for message in read_all(bootstrap, large)]
    assert sorted(alerts) == list(range(100, 250)), "no failure, so at least once is exactly once"
    assert sorted(DeltaTable(tmp_path / "lake").to_pyarrow_table()["id"].to_pylist()) == list(range(250))


FAILING = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as sql
spark = SparkSession.active()

@dp.temporary_view
def numbers_in():
    records = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
    return records.option("subscribe", "{topic}").option("startingOffsets", "earliest").load()

@dp.table
def numbers():
    return spark.readStream.table("numbers_in").select(sql.col("value").cast("string").cast("int").alias("number"))
"""


def test_a_failed_flow_names_the_record(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    produce(bootstrap, topic, [Sent(b"%d" % number, partition=number % 2) for number in range(60)])
    project = write_project({"numbers.py": FAILING.format(bootstrap=bootstrap, topic=topic)})
    session = open_project(project)
    assert session.run().ok
    produce(bootstrap, topic, [Sent(b"7", partition=1), Sent(b"seven", partition=1), Sent(b"8", partition=1)])
    result = session.run()
    assert result.status == "failed"
    (failure,) = result.failures
    assert (failure.flow, failure.file, failure.line) == ("numbers", "transformations/numbers.py", 11)
    assert failure.batch_id == 1
    assert [str(span) for span in failure.spans] == [f"{topic}/1 offsets 30 to 32"]
    assert str(failure.record) == f"{topic}/1 offset 31"
    assert failure.value == "seven"
    assert "CAST_INVALID_INPUT" in failure.message
    assert "\n\tat " not in failure.message


COPIED = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
for name in ("copied", "copied_too"):
    @dp.table(name=name)
    def copy():
        reader = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
        return reader.option("subscribe", "{topic}").option("startingOffsets", "earliest").load().select("offset")
"""


@pytest.mark.slow
def test_a_full_refresh_computes_anew_and_a_refresh_leaves_the_others(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    produce(bootstrap, topic, [Sent(b"x") for _ in range(10)])
    session = open_project(write_project({"copied.py": COPIED.format(bootstrap=bootstrap, topic=topic)}))
    assert session.run().ok
    produce(bootstrap, topic, [Sent(b"x") for _ in range(5)])
    result = session.run(full_refresh=["copied"])
    assert result.ok, result.error
    assert result.flows["copied"].rows == 15
    assert sorted(row.offset for row in session.spark.table("copied").collect()) == list(range(15))
    assert sorted(row.offset for row in session.spark.table("copied_too").collect()) == list(range(10))
    unknown = session.run(refresh=["copies"])
    assert unknown.error == "there is no table 'copies' to refresh: did you mean 'copied'?"


BEHIND = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
dp.create_sink("behind_sink", "runnel", {{"topic": "{topic}-out", "kafka.bootstrap.servers": "{bootstrap}"}})
@dp.table
def behind_base():
    reader = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
    return reader.option("subscribe", "{topic}").option("startingOffsets", "earliest").load().select("offset", "value")
@dp.temporary_view
def behind_view():
    return spark.readStream.table("behind_base")
@dp.table
def behind_down():
    return spark.readStream.table("behind_view")
@dp.append_flow(target="behind_sink", name="behind_flow")
def sent():
    return spark.readStream.table("behind_base").select("value")
@dp.materialized_view
def behind_sum():
    return spark.read.table("behind_base").groupBy().count()
"""
BEHIND_SQL = "CREATE STREAMING TABLE behind_sql AS SELECT * FROM STREAM(behind_down);"


def test_what_reads_a_table_is_emptied_with_it(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    """Else it reads the table from its start once more, and has every row twice."""
    topic = new_topic()
    produce(bootstrap, topic, [Sent(b"x") for _ in range(10)])
    files = {"behind.py": BEHIND.format(bootstrap=bootstrap, topic=topic), "behind.sql": BEHIND_SQL}
    session = open_project(write_project(files))
    assert session.run().ok
    assert session.run(full_refresh=["behind_base"]).error == (
        "behind_down and behind_sql would get the rows of behind_base a second time: empty what reads a table "
        "together with it (--full-refresh behind_down --full-refresh behind_sql)"
    )
    assert "--full-refresh behind_sql)" in str(session.run(full_refresh=["behind_base", "behind_down"]).error)
    anew = session.run(full_refresh=["behind_base", "behind_down", "behind_sql"])
    assert anew.ok, anew.error
    assert session.run().ok
    for table in ("behind_base", "behind_down", "behind_sql"):
        assert sorted(row.offset for row in session.spark.table(table).collect()) == list(range(10)), table


def test_a_run_is_noted_and_runs_alone(open_project: Open, write_project: Write) -> None:
    session = open_project(write_project({"one.sql": "CREATE MATERIALIZED VIEW noted AS SELECT 1 AS x;"}))
    assert session.run().ok
    state = current_state(session.project)
    assert (state["status"], state["run"], state["flows"]["noted"]["status"]) == ("completed", 1, "COMPLETED")
    assert "runnel_pipeline_runs_total" in (session.project.notes / "metrics.prom").read_text()
    with RunNotes(session.project), pytest.raises(AlreadyRunning):
        session.run()


def test_a_graph_that_cannot_be_is_found_in_its_file(open_project: Open, write_project: Write) -> None:
    text = "CREATE MATERIALIZED VIEW round_a AS SELECT * FROM round_b;\n"
    text += "CREATE MATERIALIZED VIEW round_b AS SELECT * FROM round_a;"
    failed = open_project(write_project({"round.sql": text})).run()
    assert re.match(r"transformations/round.sql:[12]: .*remove the dependency", str(failed.error), re.DOTALL)


CHOSEN = """
CREATE MATERIALIZED VIEW chosen AS SELECT 1 AS x;
CREATE STREAMING TABLE chosen_not AS SELECT * FROM STREAM chosen_from;
CREATE STREAMING TABLE chosen_from AS SELECT 1 AS x FROM STREAM chosen_topic;
CREATE FLOW chosen_more AS INSERT INTO chosen_not BY NAME SELECT * FROM STREAM chosen_from;
CREATE MATERIALIZED VIEW default.chosen_too AS SELECT 2 AS x;
"""
CHOSEN_NOT = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
dp.create_sink("chosen_sink", "runnel", {{"kafka.acks": "two", "kafka.bootstrap.servers": "{bootstrap}"}})
@dp.temporary_view
def chosen_topic():
    reader = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
    return reader.option("subscribe", "{topic}").load()
@dp.append_flow(target="chosen_sink")
def chosen_flow():
    return spark.readStream.table("chosen_topic")
@dp.table
def chosen_copy():
    return spark.readStream.table("chosen_topic").select("value")
"""


def test_a_run_of_some_tables_is_not_refused_for_others(
    open_project: Open, write_project: Write, bootstrap: str, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    files = {"chosen.sql": CHOSEN, "other.py": CHOSEN_NOT.format(bootstrap=bootstrap, topic=topic)}
    session = open_project(write_project(files))
    assert len(session.run().problems) == 3, "a topic, a sink, two flows into one table"
    for name in ("chosen", "spark_catalog.default.chosen", "chosen_too", "DEFAULT.chosen_too"):
        result = session.run(refresh=[name])
        assert result.ok, result.error
    assert session.spark.table("chosen").count() == session.spark.table("chosen_too").count() == 1
    (problem,) = session.run(refresh=["chosen", "chosen_copy"]).problems
    assert f"there is no topic '{topic}'" in problem.message, "a view's problem is that of who reads it"
    (problem,) = session.run(full_refresh=["chosen_not"]).problems
    assert problem.flow == "chosen_more"


NAMED = """
CREATE MATERIALIZED VIEW named AS SELECT 1 AS x;
CREATE TEMPORARY VIEW seen AS SELECT 1 AS x;
"""
NAMED_SINK = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
dp.create_sink("named_sink", "console")
@dp.append_flow(target="named_sink", name="named_flow")
def nothing():
    return SparkSession.active().readStream.format("rate").load()
"""
NOT_TABLES = "sinks, temporary views and flows cannot be refreshed by themselves"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("", "'' is no name of a table to refresh"),
        ("nowhere.named", "there is no table 'nowhere.named' to refresh: did you mean 'named'?"),
        ("nothing", "there is no table 'nothing' to refresh"),
        *((name, f"'{name}' is no table: {NOT_TABLES}") for name in ("seen", "named_sink", "named_flow")),
    ],
)
def test_names_that_there_is_nothing_to_refresh_by(
    open_project: Open, write_project: Write, name: str, answer: str
) -> None:
    session = open_project(write_project({"one.sql": NAMED, "two.py": NAMED_SINK}))
    assert session.run(full_refresh=[name]).error == answer


@pytest.mark.filterwarnings("ignore:.*RETRIES_EXCEEDED")
def test_a_jvm_that_has_ended_is_said_to_have(write_project: Write) -> None:
    """And not that whatever was asked of it is wrong."""
    from runnel.spark.pipelines import PipelineSession
    from runnel.spark.pipelines.engine import EngineFailed

    folder = write_project({"one.sql": "CREATE MATERIALIZED VIEW gone AS SELECT 1 AS x;"})
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("database: gone\n")
    with PipelineSession(folder, master="local[1]", conf={"spark.driver.memory": "1g"}) as session:
        jvm = session._engine._gateway.proc
        jvm.kill()
        jvm.wait()
        result = session.run()
        words = f"Spark's JVM has ended; what it said last is in {session.project.notes / 'spark.log'}"
        assert (result.status, result.error, result.problems) == ("failed", words, ())
        with pytest.raises(EngineFailed, match="Spark's JVM has ended"):
            session.validate()


def test_a_table_that_another_project_filled_is_not_added_to(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    """Spark would take the first batches for repetitions of the other's, and pass over them."""
    topic = new_topic()
    produce(bootstrap, topic, [Sent(b"x") for _ in range(10)])
    text = COPIED.format(bootstrap=bootstrap, topic=topic).replace("copied", "taken")
    project = write_project({"copied.py": text})
    assert open_project(project).run().ok
    (project / "storage" / "_checkpoints").rename(project / "gone")
    session = open_project(project)
    refused = session.run()
    for table in ("taken", "taken_too"):
        assert f"table {table} holds rows, and flow {table} has no checkpoint" in str(refused.error)
    assert [problem.line for problem in session.validate()] == [6, 6]
    emptied = session.run(full_refresh=["taken", "spark_catalog.default.taken_too"])
    assert emptied.ok, emptied.error
    assert sorted(row.offset for row in session.spark.table("taken").collect()) == list(range(10))
    assert session.run().ok
    renamed = "dp.create_streaming_table(name)\n    @dp.append_flow(target=name, name=name + '_flow')"
    (project / "transformations" / "copied.py").write_text(text.replace("@dp.table(name=name)", renamed))
    assert "table taken holds rows, and flow taken_flow has no checkpoint" in str(session.run().error)


def test_a_flow_of_a_sql_file_that_fails_is_found_in_it(
    open_project: Open, write_project: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT CAST(concat('x', id) AS INT) AS x FROM range(1)"
    text = f"-- It cannot be.\nCREATE MATERIALIZED VIEW fails_in_sql AS {query};"
    failed = open_project(write_project({"one.sql": text})).run()
    assert "CAST_INVALID_INPUT" not in capfd.readouterr().err, "it is told once, and not by PySpark's logger"
    assert str(failed.error).startswith("transformations/one.sql:2: flow fails_in_sql: "), failed.error
