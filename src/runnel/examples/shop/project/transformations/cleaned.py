"""Topics to streaming tables: what is sound and in time."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from runnel.examples.shop.sources import read_topics
from runnel.examples.shop.transforms import CLICK, ORDER, PAYMENT, Kind, clean

spark = SparkSession.active()


def cleaned(kind: Kind) -> DataFrame:
    columns = "value binary, timestamp timestamp"
    return clean(read_topics(spark, kind.topic, group=f"pipeline.{kind.topic}", columns=columns), kind)


@dp.table(comment="Orders that are sound and in time")
def orders() -> DataFrame:
    return cleaned(ORDER)


@dp.table(comment="Payments that are sound and in time")
def payments() -> DataFrame:
    return cleaned(PAYMENT)


@dp.table(comment="Clicks that are sound and in time")
def clicks() -> DataFrame:
    return cleaned(CLICK)
