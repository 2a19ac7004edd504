"""The Python columns: one set of scenarios, run through each client's driver (`clients.drivers`).

A scenario is a function of a `Run`, registered under its feature's id. It raises where something is not as it must be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from clients.drivers import Driver, Reader, Received, Sent
from harness.conditions import wait_until

MESSAGE_TOO_LARGE, UNKNOWN_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_CONFIG = 10, 3, 36, 37, 40
NON_EMPTY_GROUP, GROUP_NOT_FOUND, ELECTION_NOT_NEEDED, NO_REASSIGNMENT, INVALID_RECORD = 68, 69, 84, 85, 87

SCENARIOS: dict[str, Callable[[Run], None]] = {}


def scenario(feature: str) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    def register(function: Callable[[Run], None]) -> Callable[[Run], None]:
        SCENARIOS[feature] = function
        return function

    return register


class Run:
    """One scenario on one client: names of its own, and readers that are closed afterwards."""

    def __init__(self, client: Driver, prefix: str, feature: str) -> None:
        self.client = client
        self.admin = client.admin
        self._name = f"{prefix}.{feature}"
        self._readers: list[Reader] = []

    def name(self, part: str = "") -> str:
        return f"{self._name}.{part}" if part else self._name

    def topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None, part: str = "") -> str:
        name = self.name(part)
        self.admin.create_topic(name, partitions, configs)
        wait_until(lambda: self._is_led(name, partitions), f"leaders of {name}")
        return name

    def _is_led(self, name: str, partitions: int) -> bool:
        """Apache Kafka's metadata follow a little later, Runnel's at once."""
        if name not in self.admin.topic_names():
            return False
        leaders = self.admin.describe_topic(name)
        return len(leaders) == partitions and all(leader >= 0 for leader in leaders.values())

    def reader(self, topic: str, partitions: int = 1, **options: Any) -> Reader:
        return self._kept(self.client.reader(topic, partitions, **options))

    def member(self, group: str, topic: str, **options: Any) -> Reader:
        return self._kept(self.client.member(group, topic, **options))

    def _kept(self, reader: Reader) -> Reader:
        self._readers.append(reader)
        return reader

    def end(self, reader: Reader) -> None:
        self._readers.remove(reader)
        reader.close()

    def close(self) -> None:
        while self._readers:
            self._readers.pop().close()

    def refused(self, code: int, call: Callable[[], object]) -> None:
        """The broker says no, with this error, and the client passes it on."""
        try:
            call()
        except Exception as error:
            found = self.client.error_code(error)
            if found not in (code, self.client.codes_unknown.get(code)):
                raise AssertionError(f"refused with {found} ({error!r}), not {code}") from error
            return
        raise AssertionError(f"not refused, {code} expected")


def equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {_short(found)}, not {_short(expected)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}…"


def numbered(count: int, partition: int = 0) -> list[Sent]:
    """Records whose key and value say which they are; long enough to be worth compressing."""
    return [
        Sent(f"value {index} ".encode() * 20, key=f"key {index}".encode(), partition=partition)
        for index in range(count)
    ]


def check_numbered(received: list[Received], count: int, start: int = 0) -> None:
    expected = [(start + index, sent.key, sent.value) for index, sent in enumerate(numbered(count))]
    equal([(one.offset, one.key, one.value) for one in received], expected, "the records")


def poll_until(
    check: Callable[[], bool], what: str, *readers: Reader, into: list[Received] | None = None
) -> list[Received]:
    """Everything that came to any of them, while all are polled until the condition holds."""
    found = [] if into is None else into
    # Side by side, as if each had a process of its own: a member may need the other's poll to get on with its own.
    with ThreadPoolExecutor(len(readers)) as pool:

        def step() -> bool:
            for records in pool.map(lambda reader: reader.poll(), readers):
                found.extend(records)
            return check()

        wait_until(step, what)
    return found


def read(count: int, what: str, *readers: Reader) -> list[Received]:
    """At least `count` records."""
    found: list[Received] = []
    return poll_until(lambda: len(found) >= count, what, *readers, into=found)
