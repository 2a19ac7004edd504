"""Lake tables: topics into Delta, Iceberg or Parquet, exactly once, and the proof that a table equals its topic.

In: rows as Arrow batches, from Spark's executors. Out: Parquet files, and one commit per batch in the table's own
format, stamped with (app id, batch id) so that a batch that Spark repeats changes nothing. Reading order: options,
files, tables (one module per format), sink, verify. Needs the extra `runnel[lake]`.
"""
