"""From a producer through Spark into a topic: how long a record takes, for each processing-time trigger.

A producer sends at a fixed rate, each record with the time at which it was due; a stream copies the topic to another
through the connector under test, as source and as sink; a consumer looks at the clock when a record comes out.
"""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from benchmarks.results import Row
from benchmarks.spark.bench import OURS, PARTITIONS, THEIRS, SparkBench, WrongResult
from benchmarks.spark.sizes import Sizes
from benchmarks.spark.turns import first_line

TITLE = "Latency from produce to sink"
PERCENTILES = (50, 95, 99)
VALUE_BYTES = 100
ARRIVAL_S_MAX = 60.0
POLL_S = 0.05
POLL_MESSAGES_MAX = 1000
_DUE = struct.Struct(">d")


class Load:
    """Records that leave on a fixed schedule, from a thread of its own, until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, rate: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "1"})
        self._topic, self._interval_s = topic, 1 / rate
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        due_s, padding = time.perf_counter(), bytes(VALUE_BYTES - _DUE.size)
        while not self._stopped.wait(max(0.0, due_s - time.perf_counter())):
            self._producer.produce(self._topic, _DUE.pack(due_s) + padding)
            self._producer.poll(0)
            due_s += self._interval_s
        self._producer.flush(ARRIVAL_S_MAX)


class Arrivals:
    """What came out: `until` reads up to a record that was due then."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "bench-latency", "enable.auto.commit": False}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])

    def close(self) -> None:
        self._consumer.close()

    def _arrived(self) -> list[Message]:
        """What is there, as soon as anything is: `consume` alone waits for its whole time or a full list."""
        first = self._consumer.poll(POLL_S)
        return [] if first is None else [first, *self._consumer.consume(POLL_MESSAGES_MAX, 0)]

    def until(self, due_s: float, query: Any) -> list[tuple[float, float]]:
        """(due, latency) of all that arrive before every partition has shown a record that was due later."""
        found: list[tuple[float, float]] = []
        behind = set(range(PARTITIONS))
        deadline_s = max(due_s, time.perf_counter()) + ARRIVAL_S_MAX
        while behind:
            messages = self._arrived()
            now_s = time.perf_counter()
            for message in messages:
                if message.error() is not None:
                    raise WrongResult(str(message.error()))
                (sent_s,) = _DUE.unpack_from(message.value() or b"")
                found.append((sent_s, now_s - sent_s))
                if sent_s >= due_s:
                    behind.discard(message.partition())
            if query.exception() is not None:
                raise WrongResult(f"the stream ended: {query.exception()}")
            if time.perf_counter() > deadline_s:
                raise WrongResult(f"nothing came out of the stream for {ARRIVAL_S_MAX:.0f} s")
        return found


@contextlib.contextmanager
def copying(bench: SparkBench, connector: str, source: str, target: str, trigger: str) -> Iterator[Any]:
    """A running stream from one topic to another."""
    frame = bench.read_stream(connector, source).load().select("value", "partition")
    with bench.fresh_folder() as checkpoint:
        writer = bench.to_topic(connector, frame, target).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(processingTime=trigger).start()
        try:
            yield query
        finally:
            query.stop()


def latencies_s(bench: SparkBench, connector: str, trigger: str) -> list[float]:
    """Of every record that was due in the measured time."""
    sizes, bootstrap = bench.sizes, bench.broker.bootstrap
    with contextlib.ExitStack() as stack:
        source, target = (stack.enter_context(bench.fresh_topic()) for _ in range(2))
        stack.enter_context(Load(bootstrap, source, sizes.latency_rate))
        query = stack.enter_context(copying(bench, connector, source, target, trigger))
        arrivals = stack.enter_context(contextlib.closing(Arrivals(bootstrap, target)))
        arrivals.until(time.perf_counter(), query)  # the stream has started and caught up
        begin_s = time.perf_counter() + sizes.latency_warmup_s
        end_s = begin_s + sizes.latency_s
        found = arrivals.until(end_s, query)
    return sorted(latency_s for due_s, latency_s in found if begin_s <= due_s < end_s)


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))]


def run(bench: SparkBench) -> None:
    for number, trigger in enumerate(bench.sizes.latency_triggers):
        contenders = [OURS, THEIRS]
        for turn in range(0 if number else -1, bench.sizes.turns):  # what is warm stays so
            for connector in list(contenders):
                which = "warm-up" if turn < 0 else f"turn {turn + 1} of {bench.sizes.turns}"
                bench.tell(f"{TITLE}: trigger {trigger}: {connector}, {which}")
                try:
                    found_s = _checked(bench, latencies_s(bench, connector, trigger))
                except Exception as problem:  # whatever Spark or a broker may come up with
                    contenders.remove(connector)
                    bench.results.failures.append(f"{TITLE}: trigger {trigger}: {connector}: {first_line(problem)}")
                    continue
                if turn >= 0:
                    _record(bench, connector, trigger, found_s)
        bench.done()


def _checked(bench: SparkBench, found_s: list[float]) -> list[float]:
    """Not one in a thousand may be missing: a stream that loses records would look fast."""
    expected = bench.sizes.latency_rate * bench.sizes.latency_s
    if abs(len(found_s) - expected) > expected / 1000 + 1:
        raise WrongResult(f"{len(found_s)} records came out of the stream instead of {expected:.0f}")
    return found_s


def _record(bench: SparkBench, connector: str, trigger: str, found_s: list[float]) -> None:
    for share in PERCENTILES:
        name = f"trigger {trigger}, {bench.sizes.latency_rate} records/s: p{share}"
        bench.results.record(Row(TITLE, name, "ms", True), connector, percentile(found_s, share) * 1e3)


def lines(sizes: Sizes) -> int:
    return len(sizes.latency_triggers)
