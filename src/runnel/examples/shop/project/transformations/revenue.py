"""Orders joined with payments, and revenue per window."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from runnel.examples.shop.transforms import count_revenue, join_payments

spark = SparkSession.active()


@dp.table(comment="Each attempt to pay an order")
def order_payments() -> DataFrame:
    return join_payments(spark.readStream.table("orders"), spark.readStream.table("payments"))


@dp.table(comment="Payments and revenue per window of ten minutes, once it is closed")
def revenue() -> DataFrame:
    return count_revenue(spark.readStream.table("order_payments"))
