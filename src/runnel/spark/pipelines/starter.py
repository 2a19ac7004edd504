"""What `runnel pipeline init` writes: a small pipeline that does something, to be changed into one's own.

In: a name and a broker's address. Out: a folder. Everything in it is plain Spark Declarative Pipelines.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from string import Template

from runnel.spark.pipelines.spec_file import Problem, ProjectError, escaped_characters, storage_uri

TOPIC = "orders"
"""The one that it reads."""

_SPEC = """\
# A Spark Declarative Pipelines project: `runnel pipeline run`, or Spark's own `spark-pipelines run`.
name: $quoted_name
storage: $storage
libraries:
  - glob:
      include: transformations/**
"""

_ORDERS = '''\
"""Orders from a topic: the good ones as a table, the others set aside with the reason."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from runnel.spark import from_json

spark = SparkSession.active()


def decoded(reader: str) -> DataFrame:
    """The topic's records, decoded. Each reader shows its progress in a consumer group of its own."""
    records = (
        spark.readStream.format("runnel")
        .option("kafka.bootstrap.servers", "$bootstrap")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", $group + reader)
        .load()
    )
    return records.select("*", from_json("value", "id long, customer string, total double").alias("decoded"))


@dp.table
def orders() -> DataFrame:
    good = decoded("orders").where("decoded.error is null and decoded.data.id is not null")
    return good.select("decoded.data.*", "timestamp", "partition", "offset")


@dp.table
def orders_rejected() -> DataFrame:
    bad = decoded("rejected").where("decoded.error is not null or decoded.data.id is null")
    reason = "coalesce(decoded.error, 'there is no id') as reason"
    return bad.selectExpr("string(value) as value", reason, "timestamp", "partition", "offset")
'''

_REVENUE = """\
-- Computed anew by each run, from all orders so far.
CREATE MATERIALIZED VIEW revenue AS
SELECT customer, count(*) AS orders, sum(total) AS total
FROM orders
GROUP BY customer;
"""

_LARGE_ORDERS = '''\
"""Large orders, told to others: a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

dp.create_sink("large_orders", "runnel", {"kafka.bootstrap.servers": "$bootstrap", "topic": "orders-large"})


@dp.append_flow(target="large_orders")
def large_orders_flow() -> DataFrame:
    large = spark.readStream.table("orders").where("total >= 100")
    return large.selectExpr("string(id) as key", "to_json(struct(id, customer, total)) as value")
'''

_README = """\
# $name

The topic `orders` becomes a table of good orders and one of rejected records, the revenue per customer, and a topic
`orders-large`.

    runnel topic create orders -b $bootstrap --if-not-exists
    runnel produce orders -b $bootstrap -v '{"id": 1, "customer": "Ada", "total": 120.5}'
    runnel pipeline validate $project
    runnel pipeline run $project             # processes what is there; --every 10s goes on until `runnel pipeline stop`
    runnel consume orders-large -b $bootstrap -e

A look at a table:

    python -c $look

What a run has read it does not read again: Spark's checkpoints are in `pipeline-storage`, and so are the tables.
"""

_LOOK = 'from runnel.spark.pipelines import PipelineSession as S; S({}).spark.table("revenue").show()'

_FILES = {
    "spark-pipeline.yml": _SPEC,
    "README.md": _README,
    ".gitignore": "pipeline-storage/\n__pycache__/\n",
    "transformations/orders.py": _ORDERS,
    "transformations/revenue.sql": _REVENUE,
    "transformations/large_orders.py": _LARGE_ORDERS,
}


def make_project(folder: Path, bootstrap: str) -> list[Path]:
    """Write the starter into `folder`, which must not exist; answers the files."""
    folder = folder.resolve()
    wrong = escaped_characters(str(folder))
    if wrong:
        raise ProjectError(
            [Problem(f"Spark loses checkpoints where a path has '{wrong}': choose another than {folder}")]
        )
    folder.mkdir(parents=True)
    values = {
        "name": folder.name,
        "project": shlex.quote(folder.name),
        "quoted_name": _quoted(folder.name),
        "look": shlex.quote(_LOOK.format(_quoted(folder.name))),
        "group": _quoted(f"{folder.name}-"),
        "bootstrap": bootstrap,
        "storage": _quoted(storage_uri(folder / "pipeline-storage")),
    }
    written = []
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(Template(text).substitute(values), encoding="utf-8")
        written.append(path)
    return written


def _quoted(text: str) -> str:
    """As YAML and Python read it alike."""
    return json.dumps(text, ensure_ascii=False)
