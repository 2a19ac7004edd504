"""What an executor does for the sink: rows to partitions, partitions to batches, batches to brokers.

In: Arrow batches of one task. Out: records in topics, each at least once, in order per partition and task; and a
`Written` for the driver. Reading order: sender, task, then `runnel.spark.writers`.

**Where exactly-once will go.** `Sender` takes an identity (producer id, epoch, transactional id) and stamps batches
with it; today the identity is that of an idempotent producer, which the tasks of one Python worker have one after the
other until one of them fails. A transactional sink asks for one
that is fenced by (query id, batch id), which executors find in the task's local properties, and lets the driver's
`commit` end the transaction: nothing else here changes.
"""
