"""Orders joined with payments, and revenue per window."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from runnel.examples.shop.sources import read_table
from runnel.examples.shop.transforms import count_revenue, join_payments

spark = SparkSession.active()


@dp.table(comment="Each attempt to pay an order")
def order_payments() -> DataFrame:
    return join_payments(read_table(spark, "orders", "ordered_at"), read_table(spark, "payments", "paid_at"))


@dp.table(comment="Payments and revenue per window of ten minutes, once it is closed")
def revenue() -> DataFrame:
    return count_revenue(read_table(spark, "order_payments", "paid_at"))
