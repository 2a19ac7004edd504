"""What somebody should look at, into a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from runnel.examples.shop.rules import ALERTS
from runnel.examples.shop.sources import bootstrap_servers, read_table
from runnel.examples.shop.transforms import alert_failures, alert_mismatches

spark = SparkSession.active()

dp.create_sink("alerts", "runnel", {"kafka.bootstrap.servers": bootstrap_servers(spark), "topic": ALERTS})


@dp.append_flow(target="alerts")
def send_alerts() -> DataFrame:
    mismatches = alert_mismatches(read_table(spark, "order_payments"))
    return mismatches.union(alert_failures(read_table(spark, "revenue")))
