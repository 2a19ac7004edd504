"""Owns making a freshly started broker warm: Kafka's JVM compiles what it runs often, and a cold one is no fair peer.

Both brokers get the same: single-record requests one and many in flight, then a full-speed produce and a read-back.
"""

from __future__ import annotations

from benchmarks.bench import Bench, fresh_topic
from benchmarks.clients import bare_socket
from benchmarks.peers import Durability, RunningBroker

SIZE_BYTES = 100
WINDOWS = (1, 16)


def warm_up(bench: Bench, broker: RunningBroker) -> None:
    bench.tell("warming the broker up")
    config = bench.peer.topic_config(Durability.WRITTEN, "1")
    with fresh_topic(broker, 1, config) as (_, topic):
        for window in WINDOWS:
            bare_socket.single_record_requests(
                broker.bootstrap, topic, value_bytes=SIZE_BYTES, window=window, seconds=bench.sizes.warmup_s
            )
    with fresh_topic(broker, 1, config) as (_, topic):
        load = {"topic": topic, "count": bench.sizes.records_100b // 2, "size": SIZE_BYTES}
        for mode in ("produce", "consume"):
            bench.clients.rdkafka.run(mode, bootstrap=broker.bootstrap, **load)
