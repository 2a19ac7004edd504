"""Owns starting many librdkafka consumers of one group at once and timing their first records.

Run in a process of its own (`python -m benchmarks.clients.group_members BOOTSTRAP TOPIC GROUP PROTOCOL COUNT`), which
prints one JSON line. The clients are on their defaults: what an application waits for, heartbeats included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.clients.rdkafka import ClientFailed

DEADLINE_S = 90.0
PAUSE_S = 0.001


def first_records(bootstrap: str, topic: str, group: str, protocol: str, count: int) -> dict[str, float]:
    """Seconds from the moment all subscribe: to the first record of any member, and of the last one."""
    command = [sys.executable, "-m", __name__, bootstrap, topic, group, protocol, str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"{count} members did not end within {3 * DEADLINE_S:g} s") from None
    if done.returncode != 0:
        raise ClientFailed(done.stderr.strip() or f"the members exited with {done.returncode}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main(bootstrap: str, topic: str, group: str, protocol: str, members: str) -> None:
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumers = [Consumer(settings) for _ in range(int(members))]
    for consumer in consumers:
        consumer.list_topics(topic, DEADLINE_S)  # connected, before the clock starts
    started = time.perf_counter()
    for consumer in consumers:
        consumer.subscribe([topic])
    took_s = _poll_until_all(consumers, started)
    print(json.dumps({"first_s": min(took_s), "every_s": max(took_s)}))
    with ThreadPoolExecutor(len(consumers)) as threads:
        list(threads.map(lambda consumer: consumer.close(), consumers))


def _poll_until_all(consumers: list[Any], started: float) -> list[float]:
    """Members that have their record are polled on: they must take part in the rebalances of the others."""
    took_s: dict[int, float] = {}
    while len(took_s) < len(consumers):
        for index, consumer in enumerate(consumers):
            message = consumer.poll(0)
            if message is not None and message.error() is None:
                took_s.setdefault(index, time.perf_counter() - started)
        if time.perf_counter() - started > DEADLINE_S:
            sys.exit(f"only {len(took_s)} of {len(consumers)} members got a record within {DEADLINE_S:g} s")
        time.sleep(PAUSE_S)
    return list(took_s.values())


if __name__ == "__main__":
    main(*sys.argv[1:])
