"""Reading data directories without a broker: Runnel's and Apache Kafka's, whole or damaged, never changing them.

Owns what `runnel log dump` and `runnel log verify` know: which files there are (`places`), what is in them
(`decoding`, `dumping`), what is wrong with them (`checking`, `index_checks`, `data_dir`), and, only when told to, how
to mend them (`repairing`). May import `storage`, `core` and `wire`; everything blocks.
"""
