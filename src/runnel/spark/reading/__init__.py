"""What an executor does: read offset ranges from brokers or from the broker's own files, and hand Arrow to Spark.

In: a `ReadTask` that the driver planned. Out: RecordBatches. Reading order: ranges, fetching, segments, task.
"""
