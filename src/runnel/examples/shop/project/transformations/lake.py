"""Lake tables (Delta): every record as it came, with dead letters beside it, and what was paid."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from runnel.examples.shop.sources import lake_folder, read_table
from runnel.examples.shop.transforms import archive

spark = SparkSession.active()
lake = lake_folder(spark)

dp.create_sink("lake_events", "runnel-lake", {"path": f"{lake}/events", "appId": "shop-events"})
dp.create_sink(
    "lake_order_payments",
    "runnel-lake",
    {"path": f"{lake}/order_payments", "appId": "shop-order-payments", "eventTimeColumn": "paid_at"},
)


@dp.append_flow(target="lake_events")
def archive_events() -> DataFrame:
    return archive(read_table(spark, "events"))


@dp.append_flow(target="lake_order_payments")
def archive_order_payments() -> DataFrame:
    return read_table(spark, "order_payments")
