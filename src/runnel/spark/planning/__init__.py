"""What the driver decides: which partitions, from where to where, how much per trigger, in how many tasks.

In: options and what the brokers say. Out: offset ranges in tasks. Reading order: tasks, limits, first_batch (no I/O),
offsets (asks brokers), changes (what a stream finds changed under it).
"""
