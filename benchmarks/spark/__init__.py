"""How fast topics go into Spark and out of it, beside Spark's own Kafka connector on the same broker and session.

`python -m benchmarks.spark` (make bench-spark) starts a broker and a local Spark that holds both connectors, and lets
them take turns at the same queries. In: sizes. Out: `results-spark.json` and a section of docs/benchmarks.md. May
import the rest of `benchmarks`, and `runnel.spark`. Reading order: sizes, cpu, bench, turns, filling, then a file per
workload.

`python -m benchmarks.spark.decode` measures the kernels alone, on one core. CPU per row is the figure to look at where
the machine is shared: wall time then says more about the neighbours.
"""
