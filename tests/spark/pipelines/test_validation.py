"""Each kind of mistake, and the words that name it: file, line, flow, what is there and the cure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.process import BrokerProcess, free_port
from runnel.spark.kafka_options import BrokerSettings
from runnel.spark.pipelines.checks import Brokers

if TYPE_CHECKING:
    from runnel.spark.pipelines import PipelineSession

Open = Callable[..., "PipelineSession"]
Write = Callable[[Mapping[str, str]], Path]

HEAD = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as sql
spark = SparkSession.active()
def topic(name, **options):
    reader = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
    return reader.option("subscribe", name).options(**options).load()
"""


def found(session: PipelineSession, *, ask_brokers: bool = True) -> list[str]:
    return [str(problem) for problem in session.validate(ask_brokers=ask_brokers)]


def one_of(problems: list[str], pattern: str) -> None:
    assert sum(bool(re.search(pattern, text, re.DOTALL)) for text in problems) == 1, (pattern, problems)


def test_files_that_do_not_load_are_named_all_at_once(open_project: Open, write_project: Write) -> None:
    project = write_project(
        {
            "a_import.py": "import json\nimport no_such_module\n",
            "b_syntax.py": "x = 1\ndef broken(:\n",
            "c_value.py": HEAD + "def rate():\n    return 1 / 0\nrate()\n",
            "d_type.py": HEAD + "@dp.table\ndef nothing():\n    return 5\n",
            "e_analysis.py": HEAD
            + "@dp.table\ndef eager():\n    return spark.createDataFrame([(topic('x').count(),)])\n",
            "f_sql.sql": "CREATE MATERIALIZED VIEW wrong AS SELEC 1;\n",
        }
    )
    problems = found(open_project(project))
    one_of(problems, r"^transformations/a_import.py:2: ModuleNotFoundError: No module named 'no_such_module'")
    one_of(problems, r"^transformations/b_syntax.py:2: syntax error: ")
    one_of(problems, r"^transformations/c_value.py:8: ZeroDivisionError: division by zero")
    one_of(problems, r"^transformations/d_type.py:\d+: .*nothing must return a DataFrame, not int")
    one_of(problems, r"^transformations/e_analysis.py:9: .*outside of the pipeline query function")
    one_of(problems, r"^transformations/f_sql.sql: .*SELEC")
    assert len(problems) == 6, problems


def test_what_flows_ask_for_in_vain(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    there, missing, nobody = new_topic(), new_name(), f"127.0.0.1:{free_port()}"
    flows = f"""
@dp.table
def v_unknown_topic():
    return topic("{missing}")
@dp.table
def v_no_column():
    return topic("{there}").select("valeu")
@dp.table
def v_no_broker():
    return topic("{there}", **{{"kafka.bootstrap.servers": "{nobody}"}})
@dp.materialized_view
def v_good():
    return spark.range(3)
"""
    sql = "CREATE MATERIALIZED VIEW v_from_sql AS\nSELECT nothing FROM v_good;\n"
    project = write_project({"flows.py": HEAD.format(bootstrap=bootstrap) + flows, "more.sql": sql})
    problems = found(open_project(project))
    place = r"^transformations/flows.py:"
    cure = f"create it with `runnel topic create {missing} -b {bootstrap}`"
    one_of(problems, rf"{place}8: flow v_unknown_topic: there is no topic '{missing}' at {bootstrap}: {cure}")
    one_of(problems, rf"{place}11: flow v_no_column: .*`valeu` cannot be resolved.*`value`")
    one_of(problems, rf"{place}14: flow v_no_broker: the broker at {nobody} does not answer")
    one_of(problems, r"^transformations/more.sql:1: flow v_from_sql: .*`nothing` cannot be resolved.*`id`")
    assert len(problems) == 4, problems
    unasked = found(open_project(project), ask_brokers=False)
    assert [text for text in problems if "v_no_column" in text or "v_from_sql" in text] == unasked


def test_what_reads_from_a_flow_that_is_wrong_is_no_problem_of_its_own(
    open_project: Open, write_project: Write
) -> None:
    first = "CREATE MATERIALIZED VIEW u_first AS SELECT nothing FROM range(3);\n"
    second = "CREATE MATERIALIZED VIEW u_second AS SELECT * FROM u_first;\n"
    (problem,) = found(open_project(write_project({"a.sql": first, "b.sql": second})))
    assert re.match(r"transformations/a.sql:1: flow u_first: .*`nothing` cannot be resolved", problem), problem


def test_what_flows_are_refused_for(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    flows = f"""
@dp.table
def r_misspelt_option():
    return topic("{new_topic()}", startingOffset="earliest")
@dp.table
def r_no_format():
    return spark.readStream.format("runnell").load()
"""
    problems = found(open_project(write_project({"flows.py": HEAD.format(bootstrap=bootstrap) + flows})))
    one_of(problems, r"^transformations/flows.py:8: flow r_misspelt_option: there is no option .*mean startingOffsets")
    one_of(problems, r"^transformations/flows.py:11: flow r_no_format: .*runnell")
    assert len(problems) == 2, problems


def test_what_sinks_need(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    there = new_topic()
    options = f'{{"kafka.bootstrap.servers": "{bootstrap}", "topic": "{there}"}}'
    sinks = f"""
dp.create_sink("s_wrong_option", "runnel", {{**{options}, "kafka.acks": "two"}})
dp.create_sink("s_no_format", "kafkaesque", {{}})
dp.create_sink("s_lake", "runnel-lake", {{"paht": "{tmp_path}"}})
dp.create_sink("s_memory", "memory", {{}})
for name in ("s_wrong_option", "s_no_format", "s_lake", "s_memory"):
    dp.append_flow(target=name, name=name + "_flow")(lambda: topic("{there}"))
"""
    session = open_project(write_project({"sinks.py": HEAD.format(bootstrap=bootstrap) + sinks}))
    problems = found(session)
    one_of(problems, r"^transformations/sinks.py:8: sink s_wrong_option: option kafka.acks is 'two'")
    one_of(problems, r"^transformations/sinks.py:9: sink s_no_format: there is no format 'kafkaesque'")
    one_of(problems, r"^transformations/sinks.py:10: sink s_lake: format runnel-lake has no option 'paht'")
    assert len(problems) == 3, problems
    refused = [str(problem) for problem in session.run().problems]
    assert refused == [text for text in problems if "s_no_format" not in text], "a run says so at once, too"
    columns = f"""
dp.create_sink("s_one", "runnel", {options})
dp.create_sink("s_two", "runnel", {{"kafka.bootstrap.servers": "{bootstrap}"}})
dp.create_sink("s_three", "runnel", {options})
dp.create_sink("s_four", "runnel", {options})
dp.create_sink("s_five", "runnel", {options})
@dp.table
def s_records():
    return topic("{there}")
@dp.append_flow(target="s_one")
def without_value():
    return topic("{there}").select("key", "timestamp")
@dp.append_flow(target="s_two")
def without_topic():
    return topic("{there}").select("value")
@dp.append_flow(target="s_three")
def wrong_type():
    return topic("{there}").selectExpr("offset as value")
@dp.append_flow(target="s_four")
def wrong_key():
    return spark.readStream.table("s_records").selectExpr("value", "offset as key")
@dp.append_flow(target="s_five")
def wrong_partition():
    return topic("{there}").selectExpr("value", "bigint(partition) as partition")
"""
    definitions = session.project.folder / "transformations" / "sinks.py"
    definitions.write_text(HEAD.format(bootstrap=bootstrap) + columns)
    problems = found(session)
    one_of(problems, r"flow without_value: there is no column 'value' \(there are: key, timestamp\)")
    one_of(problems, r"flow without_topic: there is neither an option topic nor a column 'topic'")
    one_of(problems, r"flow wrong_type: column 'value' must be binary or string, not bigint: cast it")
    one_of(problems, r"flow wrong_key: column 'key' must be binary or string, not bigint: cast it")
    one_of(problems, r"flow wrong_partition: column 'partition' must be int, not bigint: cast it")
    assert len(problems) == 5, problems


TYPES = """
dp.create_sink("t_lake", "runnel-lake", {{"path": "{path}", "appId": "t"}})
@dp.table
def t_records():
    return topic("{topic}").selectExpr("{kind}(offset) as number")
@dp.append_flow(target="t_lake")
def t_into_lake():
    return topic("{topic}").selectExpr("{kind}(offset) as number")
"""


def test_columns_that_tables_have_otherwise(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    head, topic, path = HEAD.format(bootstrap=bootstrap), new_topic(), tmp_path / "lake"
    before = head + TYPES.format(topic=topic, path=path, kind="bigint")
    session = open_project(write_project({"types.py": before}))
    assert found(session) == []
    assert session.run().ok
    assert found(session) == [], "what is there has the same columns"
    definitions = session.project.folder / "transformations" / "types.py"
    definitions.write_text(head + TYPES.format(topic=topic, path=path, kind="string"))
    problems = found(session)
    cure = "cast it, or fill the table anew with --full-refresh t_records"
    one_of(problems, f"flow t_records: column 'number' of table t_records is bigint, .* makes it string: {cure}")
    one_of(problems, f"flow t_into_lake: column 'number' of {path} is int64, and the query writes string: cast it")
    assert len(problems) == 2, problems


IN_SQL = """
-- What `q_into_sink` reads exists in this file only.
CREATE STREAMING TABLE q_numbers AS SELECT {kind}(offset) AS number, value FROM STREAM q_records;
CREATE TEMPORARY VIEW q_view AS SELECT * FROM q_numbers;
CREATE MATERIALIZED VIEW q_count AS WITH n AS (SELECT number FROM q_view) SELECT count(*) AS n FROM n;
CREATE STREAMING TABLE q_more;
CREATE FLOW q_more_flow AS
INSERT INTO q_more BY NAME SELECT number, decimal(1) AS sum FROM STREAM spark_catalog.default.q_numbers;
"""
FROM_SQL = """
dp.create_sink("q_sink", "runnel", {{"kafka.bootstrap.servers": "{bootstrap}", "topic": "{topic}"}})
@dp.table
def q_records():
    return topic("{topic}")
@dp.append_flow(target="q_sink")
def q_into_sink():
    return spark.readStream.table("q_numbers").selectExpr("number as key", "value")
"""


def test_columns_of_sql_files(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    python = (HEAD + FROM_SQL).format(bootstrap=bootstrap, topic=new_topic())
    session = open_project(write_project({"sinks.py": python, "tables.sql": IN_SQL.format(kind="bigint")}))
    definitions = session.project.folder / "transformations"
    assert found(session) == [
        "transformations/sinks.py:12: flow q_into_sink: column 'key' must be binary or string, not bigint: cast it"
    ]
    (definitions / "sinks.py").write_text(python.replace("number as key", "string(number) as key"))
    assert found(session) == []
    assert session.run().ok
    assert found(session) == [], "what is there has the same columns"
    (definitions / "tables.sql").write_text(IN_SQL.format(kind="bigint").replace("decimal(1)", "1bd"))
    assert found(session) == [], "decimals of the same scale are merged"
    (definitions / "tables.sql").write_text(IN_SQL.format(kind="string"))
    problems = found(session)
    changed = "column 'number' of table {0} is bigint, and the flow now makes it string: cast it"
    one_of(problems, r"^transformations/tables.sql:3: flow q_numbers: " + changed.format("q_numbers"))
    one_of(problems, r"^transformations/tables.sql:7: flow q_more_flow: " + changed.format("q_more"))
    assert len(problems) == 2, problems


SUMS = """
@dp.table
def w_sums():
    return topic("{topic}"){watermark}.groupBy(sql.window("timestamp", "1 minute")).count()
"""


def test_what_streams_cannot_do(
    open_project: Open, write_project: Write, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    head, topic = HEAD.format(bootstrap=bootstrap), new_topic()
    session = open_project(write_project({"sums.py": head + SUMS.format(topic=topic, watermark="")}))
    (problem,) = found(session)
    assert re.match(r"transformations/sums.py:8: flow w_sums: .* aggregations without watermark", problem), problem
    assert "\n" not in problem, "Spark's plan is nobody's business"
    definitions = session.project.folder / "transformations" / "sums.py"
    definitions.write_text(head + SUMS.format(topic=topic, watermark='.withWatermark("timestamp", "1 minute")'))
    assert found(session) == []


def test_a_database_of_the_spec_is_made_by_the_first_run(open_project: Open, write_project: Write) -> None:
    folder = write_project({"one.sql": "CREATE MATERIALIZED VIEW d_one AS SELECT 1 AS x;"})
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("database: d_sales\n")
    session = open_project(folder)
    assert found(session) == [], "a database that the first run makes is none that is missing"
    result = session.run()
    assert result.ok, result.error
    assert (found(session), session.spark.table("d_sales.d_one").count()) == ([], 1)


def test_a_database_that_cannot_be_made_is_a_problem_of_the_spec(open_project: Open, write_project: Write) -> None:
    folder = write_project({"one.sql": "CREATE MATERIALIZED VIEW d_two AS SELECT 1 AS x;"})
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("database: d`no-name\n")
    assert str(open_project(folder).run().error).startswith("spark-pipeline.yml: database 'd`no-name' cannot be made: ")


def test_with_a_database_of_the_spec_a_problem_is_told_once(open_project: Open, write_project: Write) -> None:
    flows = """
@dp.table
def d_wrong_option():
    return topic("x", startingOffset="earliest")
"""
    folder = write_project({"flows.py": HEAD.format(bootstrap="127.0.0.1:1") + flows})
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("database: d_told_once\n")
    session = open_project(folder)
    session.make_database()
    (problem,) = found(session, ask_brokers=False)
    assert problem.startswith("transformations/flows.py:8: flow d_wrong_option: there is no option"), problem
    (folder / "transformations" / "flows.py").unlink()
    sql = "CREATE MATERIALIZED VIEW d_wrong_column AS SELECT nothing FROM range(3);"
    (folder / "transformations" / "one.sql").write_text(sql)
    (problem,) = found(session)
    assert problem.startswith("transformations/one.sql:1: flow d_wrong_column: "), problem


def test_names_of_files_are_no_patterns(open_project: Open, write_project: Write) -> None:
    (problem,) = found(open_project(write_project({"[a].py": "import no_such_module\n"})))
    assert problem.startswith("transformations/[a].py:1: ModuleNotFoundError"), problem


@pytest.mark.parametrize(
    ("definitions", "complaint"),
    [
        (
            "CREATE MATERIALIZED VIEW g_one AS SELECT * FROM g_two;\n"
            "CREATE MATERIALIZED VIEW g_two AS SELECT * FROM g_one;",
            r"cycl|[Cc]ircular|topological",
        ),
        ("CREATE MATERIALIZED VIEW g_a AS SELECT 1 AS x;\nCREATE MATERIALIZED VIEW g_a AS SELECT 2 AS x;", r"g_a"),
        ("CREATE STREAMING TABLE g_empty;", r"g_empty.*does not have any defined flows"),
    ],
    ids=["cycle", "duplicate", "no flow"],
)
def test_graphs_that_cannot_be(open_project: Open, write_project: Write, definitions: str, complaint: str) -> None:
    (problem,) = found(open_project(write_project({"graph.sql": definitions})))
    assert re.match(rf"transformations/graph.sql:\d: .*({complaint})", problem, re.DOTALL), problem


def test_a_flow_of_a_sql_file_into_a_sink_is_found_in_it(open_project: Open, write_project: Write) -> None:
    """Spark takes such flows from Python only, and names them in plain text."""
    sinks = "dp.create_sink('n_sink', 'console')\n@dp.table\ndef n_rate():\n"
    sinks += "    return spark.readStream.format('rate').load()\n"
    flow = "\nCREATE FLOW n_flow AS INSERT INTO n_sink BY NAME SELECT * FROM STREAM n_rate;"
    (problem,) = found(open_project(write_project({"sinks.py": HEAD + sinks, "flow.sql": flow})))
    assert re.match(r"transformations/flow.sql:2: Unsupported destination .*n_sink in flow: .*n_flow", problem), problem


def test_settings_that_make_no_sense_are_told(open_project: Open, write_project: Write) -> None:
    folder = write_project({"one.sql": "CREATE MATERIALIZED VIEW c_two AS SELECT 1 AS x;"})
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("configuration:\n  spark.sql.shuffle.partitions: two\n")
    (problem,) = found(open_project(folder))
    assert problem.startswith("[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'two' in the config \"spark.sql.shuffle")


def test_settings_that_come_too_late_are_told(open_project: Open, write_project: Write) -> None:
    folder = write_project({"one.sql": "CREATE MATERIALIZED VIEW c_one AS SELECT 1 AS x;"})
    with (folder / "spark-pipeline.yml").open("a") as spec:
        spec.write("configuration:\n  spark.sql.warehouse.dir: /elsewhere\n  my.own: setting\n")
    (problem,) = found(open_project(folder))
    assert problem == (
        "spark-pipeline.yml: configuration: spark.sql.warehouse.dir can be set only when Spark starts: remove it here "
        "and give it as --conf spark.sql.warehouse.dir=/elsewhere"
    )


# Tables of files --------------------------------------------------------------------------------------------------

TWO_FLOWS = """
dp.create_streaming_table("{table}"{kind})
for name in ("one", "two"):
    @dp.append_flow(target="{table}", name="{table}_" + name)
    def flow():
        return spark.readStream.format("rate").load()
"""
TWO_FLOWS_IN_SQL = """\
CREATE STREAMING TABLE v_sql_both AS SELECT * FROM STREAM v_sql_from; -- CREATE FLOW no AS INSERT INTO v_sql_from
CREATE STREAMING TABLE v_sql_from AS SELECT 1;

CREATE FLOW v_more
AS INSERT INTO v_sql_both BY NAME SELECT * FROM STREAM v_sql_from;
"""


def test_two_flows_into_one_table_of_files_are_refused(open_project: Open, write_project: Write) -> None:
    text = HEAD + TWO_FLOWS.format(table="v_both", kind="") + TWO_FLOWS.format(table="v_other", kind=", format='noop'")
    session = open_project(write_project({"two.py": text, "two.sql": TWO_FLOWS_IN_SQL}))
    problems = [text for text in found(session) if "written by flow" in text]
    one_of(problems, r"^transformations/two.py:\d+: flow v_both_two: table v_both is written by flow v_both_one too: ")
    one_of(problems, r"^transformations/two.sql:4: flow v_more: table v_sql_both is written by flow v_sql_both too: ")
    assert len(problems) == 2, problems
    refused = session.run()
    assert "records of one of them would be lost" in str(refused.error)


CHANGES = """
@dp.table
def k_changes():
    return spark.readStream.format("rate").load()
dp.create_streaming_table("k_python")
dp.create_auto_cdc_flow(target="k_python", source="k_changes", keys=["value"], sequence_by="timestamp")
dp.create_sink("k_sink", "runnel-lake", {{"path": "{path}", "appId": "shop"}})
for name in ("k_one", "k_two"):
    dp.append_flow(target="k_sink", name=name)(lambda: spark.readStream.table("k_changes"))
"""
CHANGES_IN_SQL = """\
CREATE STREAMING TABLE k_sql FLOW AUTO CDC FROM STREAM k_changes KEYS (value) SEQUENCE BY timestamp;
CREATE STREAMING TABLE k_other;
CREATE FLOW k_flow AS AUTO CDC INTO k_other FROM STREAM k_changes KEYS (value) SEQUENCE BY timestamp;
"""


def test_what_tables_and_sinks_cannot_take_is_refused_before_anything_runs(
    open_project: Open, write_project: Write, tmp_path: Path
) -> None:
    files = {"one.py": HEAD + CHANGES.format(path=tmp_path / "lake"), "two.sql": CHANGES_IN_SQL}
    session = open_project(write_project(files))
    problems = found(session)
    one_of(problems, r"^transformations/one.py:12: flow k_python: auto CDC changes rows of table k_python, .* upsert$")
    one_of(problems, r"^transformations/two.sql:1: flow k_sql: auto CDC changes rows of table k_sql")
    one_of(problems, r"^transformations/two.sql:3: flow k_flow: auto CDC changes rows of table k_other")
    one_of(
        problems, r"^transformations/one.py:13: sink k_sink: appId 'shop' is for one flow, and k_one and k_two write"
    )
    assert len(problems) == 4, problems
    assert {str(problem) for problem in session.run().problems} == set(problems)


def test_a_broker_that_answered_before_is_waited_for(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, port=free_port())
    settings = BrokerSettings(broker.address)
    (reason,) = Brokers().missing_topics(settings, set(), created=False)
    assert "does not answer" in reason
    broker.spawn()
    try:
        assert list(Brokers(known=True).missing_topics(settings, set(), created=False)) == []
    finally:
        broker.kill()


def test_a_broker_creates_the_topic_of_a_sink_but_not_with_any_name(
    start_broker: Callable[..., BrokerProcess], new_name: Callable[[], str]
) -> None:
    settings, name = BrokerSettings(start_broker().address), new_name()
    (reason,) = Brokers().missing_topics(settings, {"no/name", name}, created=True)
    assert reason == f"topic 'no/name' at {settings.bootstrap}: invalid topic exception"
    assert len(list(Brokers().missing_topics(settings, {"no/name", name}, created=False))) == 2


def test_what_definitions_print_is_not_mixed_with_what_programs_read(
    open_project: Open, write_project: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    project = write_project({"odd.py": HEAD + "print('hello')\n@dp.materialized_view\ndef odd(): return 1\n"})
    assert "odd must return a DataFrame" in found(open_project(project))[0]
    assert capsys.readouterr() == ("", "hello\n")
