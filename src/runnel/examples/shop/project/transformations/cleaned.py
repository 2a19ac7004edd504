"""Topics to streaming tables: every record as it came, and of each kind what is sound and in time."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from runnel.examples.shop.sources import read_table, read_topics
from runnel.examples.shop.transforms import CLICK, ORDER, PAYMENT, clean

spark = SparkSession.active()


@dp.table(comment="Every record of the shop's topics")
def events() -> DataFrame:
    return read_topics(spark)


@dp.table(comment="Orders that are sound and in time")
def orders() -> DataFrame:
    return clean(read_table(spark, "events"), ORDER)


@dp.table(comment="Payments that are sound and in time")
def payments() -> DataFrame:
    return clean(read_table(spark, "events"), PAYMENT)


@dp.table(comment="Clicks that are sound and in time")
def clicks() -> DataFrame:
    return clean(read_table(spark, "events"), CLICK)
