"""How fast topics go into Spark and out of it, beside Spark's own Kafka connector on the same broker and session.

`python -m benchmarks.spark decode` measures the kernels alone, on one core. `python -m benchmarks.spark rates` starts a
broker, a local Spark with both connectors, and runs the same queries through each in turn. CPU per row is the figure to
look at where the machine is shared: wall time then says more about the neighbours.
"""
