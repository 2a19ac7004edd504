"""Values to columns: JSON, Avro and Protobuf, with bad rows in a column of their own instead of a failed job.

In: a binary column. Out: a column of `struct<data, error>`: `data` is what the schema says, `error` says what was wrong
with the row. One of them is null; both are for a null value (a tombstone).

    from runnel.spark import from_json

    decoded = events.select("*", from_json("value", "id long, total double").alias("decoded"))
    good = decoded.filter("decoded.error is null").select("decoded.data.*")
    dead_letters = decoded.filter("decoded.error is not null").select("value", "decoded.error", "partition", "offset")
"""
