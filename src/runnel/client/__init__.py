"""A small asyncio Kafka client: what the `runnel` command and the tests speak through.

Owns: connections with version negotiation, cluster metadata and leader routing, admin calls, producing
and reading record batches. In: plain values. Out: plain values, or one exception type, `ClientError`,
whose message says what was wrong and what to do next. Works against any Kafka-compatible broker. Imports
only `runnel.wire`.

Reading order: errors, address, connection, metadata, cluster, then admin, partitioner, producer,
offsets, reader.
"""
