"""One real consumer in a process of its own, so that it can be killed: notes each record, then commits.

Run as `python member.py KIND BOOTSTRAP GROUP TOPIC`. Out on stdout, always written before the next step begins:
`N <head of the value>` for every record processed, then, when the broker took the commit, `C <partition> <offset>`.
SIGTERM leaves the group; SIGKILL is what the tests are about. Commits that the broker refuses are not an error: the
records come again, to this member or another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

HEAD_BYTES = 40
COMMIT_EVERY = 20
POLL_SECONDS = 0.05
SESSION_MS = 5000
CLASSIC = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200}
LIBRDKAFKA: dict[str, dict[str, Any]] = {
    "eager": {**CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


class Stop:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True


def tell(lines: list[bytes]) -> None:
    """In one write, past every buffer of this process: a killed member has said all that it did."""
    data = b"".join(line + b"\n" for line in lines)
    while data:
        data = data[os.write(1, data) :]


def noted(value: bytes) -> bytes:
    return b"N " + value[:HEAD_BYTES].rpartition(b":")[0]


def run_librdkafka(kind: str, bootstrap: str, group: str, topic: str, stop: Stop) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
    }
    consumer = Consumer({**settings, **LIBRDKAFKA[kind]})
    done: dict[int, int] = {}  # partition -> the offset after the last record noted; never kept past a revocation
    lines: list[bytes] = []

    def forget(_: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            done.pop(partition.partition, None)

    consumer.subscribe([topic], on_revoke=forget, on_lost=forget)
    while not stop.asked:
        message = consumer.poll(POLL_SECONDS)
        if message is not None and message.error() is None:
            lines.append(noted(message.value()))
            done[message.partition()] = message.offset() + 1
        if lines and (message is None or len(lines) >= COMMIT_EVERY):
            tell(lines)
            lines.clear()
            with contextlib.suppress(KafkaException):
                _commit(consumer, topic, done)
    consumer.close()


def _commit(consumer: Any, topic: str, done: dict[int, int]) -> None:
    from confluent_kafka import TopicPartition

    if done:
        asked = [TopicPartition(topic, partition, offset) for partition, offset in done.items()]
        answers = consumer.commit(offsets=asked, asynchronous=False)
        tell([b"C %d %d" % (row.partition, row.offset) for row in answers if row.error is None])
        done.clear()


async def run_aiokafka(bootstrap: str, group: str, topic: str, stop: Stop) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError

    # A revocation waits for the batch in hand, else its commit could go out as the next member's. It must not wait for
    # getmany: that waits for the next assignment itself.
    busy = asyncio.Lock()

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            async with busy:
                pass

        async def on_partitions_assigned(self, assigned: Any) -> None:
            pass

    while not stop.asked:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            retry_backoff_ms=50,
            metadata_max_age_ms=1000,
        )
        consumer.subscribe([topic], listener=Listener())
        try:
            await consumer.start()
            while not stop.asked:
                await _aiokafka_step(consumer, busy)
        except (KafkaError, OSError):
            await asyncio.sleep(POLL_SECONDS)  # started or left alone while the broker was away
        finally:
            # aiokafka cancels its own tasks here, and without a broker one of them may pass that on to the caller.
            with contextlib.suppress(asyncio.CancelledError, KafkaError, OSError):
                await consumer.stop()


async def _aiokafka_step(consumer: Any, busy: asyncio.Lock) -> None:
    from aiokafka.errors import CommitFailedError, IllegalStateError

    batches = await consumer.getmany(timeout_ms=50, max_records=COMMIT_EVERY)
    done = {place: messages[-1].offset + 1 for place, messages in batches.items()}
    if done:
        async with busy:
            tell([noted(message.value) for messages in batches.values() for message in messages])
            with contextlib.suppress(CommitFailedError, IllegalStateError):
                await consumer.commit(done)
                tell([b"C %d %d" % (place.partition, offset) for place, offset in done.items()])


def main(kind: str, bootstrap: str, group: str, topic: str) -> None:
    stop = Stop()
    if kind == "aiokafka":
        import logging

        logging.disable(logging.CRITICAL)
        asyncio.run(run_aiokafka(bootstrap, group, topic, stop))
    else:
        run_librdkafka(kind, bootstrap, group, topic, stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
