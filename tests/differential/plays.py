"""Scripted scenarios: each is a function that asks both brokers, played once for every version of its API.

In: `@scenario(api key)` over a function of a `Play`. Out: the registry `SCENARIOS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from differential.both import Both, Pair
from differential.names import Built, Name, Names
from harness.batches import encode_batch

START_MS = 1_700_000_000_000


class Scenario(NamedTuple):
    api_key: int
    name: str
    run: Callable[[Play], None]
    lowest: int
    highest: int


SCENARIOS: list[Scenario] = []


def scenario(
    api_key: int, *, lowest: int = 0, highest: int = 1 << 15
) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:
    def register(run: Callable[[Play], None]) -> Callable[[Play], None]:
        SCENARIOS.append(Scenario(api_key, run.__name__, run, lowest, highest))
        return run

    return register


class Play:
    """One scenario in one version, with names of its own."""

    def __init__(self, both: Both, api_key: int, version: int, name: str) -> None:
        self.both = both
        self.api_key = api_key
        self.version = version
        self.prefix = f"{name.replace('_', '-')}-v{version}"
        self._numbers = itertools.count(1)

    def ask(self, body: Mapping[str, Any], **options: Any) -> Pair:
        """The scenario's own API in the version that is being played; options as in `Both.ask`."""
        return self.both.ask(self.api_key, self.version, body, **options)

    def name(self, suffix: str = "") -> str:
        return f"{self.prefix}-{suffix or next(self._numbers)}"

    def topic(self, suffix: str = "", partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        return self.both.topic(self.name(suffix), partitions, configs)

    def shared(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> tuple[str, bool]:
        """A topic that all versions use, and whether it is new."""
        made = name not in self.both.shared
        if made:
            self.both.shared.add(name)
            self.both.topic(name, partitions, configs)
        return name, made

    def produce(self, topic: str, records: Any, partition: int = 0) -> None:
        data = [{"index": partition, "records": records}]
        self.both.ask(0, 9, {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": topic, "partition_data": data}]})

    def producer(self, name: str) -> Name:
        pair = self.both.ask(22, 4, {"transactional_id": None, "transaction_timeout_ms": 60_000})
        return self.both.learn("producer", f"{self.prefix}/{name}", pair, lambda reply: reply["producer_id"])


def topic_id(topic: str) -> Name:
    return Name("topic", topic)


def batch(*values: bytes | None, **options: Any) -> bytes:
    return encode_batch(values or (b"v",), timestamp_ms=options.pop("at_ms", START_MS), **options)


def batch_of(producer: Name, epoch: int, sequence: int, count: int = 1) -> Built:
    """A batch of an idempotent producer."""

    def build(names: Names) -> bytes:
        values = [f"{sequence + index}".encode() for index in range(count)]
        return encode_batch(
            values,
            producer_id=names.value(producer),
            producer_epoch=epoch,
            base_sequence=sequence,
            timestamp_ms=START_MS,
        )

    return Built(build, f"{count} records of {producer} epoch {epoch} from sequence {sequence}")
