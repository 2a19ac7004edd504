"""A blocking Kafka client, lean enough for executors: a socket per broker, requests sent ahead, one buffer for replies.

In: `BrokerSettings` and requests. Out: replies, or `ClientError`. Values (metadata, addresses, errors) are those of
`runnel.client`; what differs is the waiting: Spark calls from threads of its own, without an event loop.

Reading order: connection, cluster, kept, offsets, commits.
"""
