"""Random quotas and traffic through our book and through Apache Kafka's own quota managers: equal throttle times."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from java_tools import run_java
from runnel.core.quotas import QuotaBook, QuotaKey, Window
from runnel.core.quotas.tables import ClientTable, Entity

ORACLE = Path(__file__).with_name("KafkaQuotas.java")
USERS, CLIENTS = ("ann", "bob"), ("c1", "c2", "-")


class Side:
    """Writes the script for Kafka and keeps our own answers to it."""

    def __init__(self) -> None:
        self.script: list[str] = []
        self.answers: list[str] = []

    def ask(self, line: str, answer: object) -> None:
        self.script.append(line)
        self.answers.append(str(answer))

    def check(self) -> None:
        done = run_java(str(ORACLE), stdin="\n".join(self.script) + "\n")
        assert done.returncode == 0, done.stderr
        asked = [line for line in self.script if line.split()[0] in ("find", "record", "strict", "permissive")]
        theirs = done.stdout.split("\n")[:-1]
        assert list(zip(asked, self.answers, strict=True)) == list(zip(asked, theirs, strict=True))


def entity(user: str, client: str) -> Entity:
    named = (("client-id", client), ("user", user))
    return tuple((kind, None if name == "*" else name) for kind, name in named if name != "-")


def plain(client: str) -> str:
    return "" if client == "-" else client


@pytest.mark.java
def test_the_same_quota_is_found_and_shared_by_the_same_clients() -> None:
    chance = random.Random(1)
    side = Side()
    combinations = [(u, c) for u in ("-", "*", *USERS) for c in ("-", "*", "c1", "c2") if (u, c) != ("-", "-")]
    for _ in range(300):
        chosen = {pair: float(chance.randint(1, 9)) for pair in combinations if chance.random() < 0.25}
        side.script.append("new 11 1")
        side.script += [f"quota {user} {client} {limit}" for (user, client), limit in chosen.items()]
        table = ClientTable({entity(*pair): {"k": limit} for pair, limit in chosen.items()}, "k")
        for user in (*USERS, "carl"):
            for client in (*CLIENTS, "c3"):
                _ask_for(side, table, user, client)
    side.check()


def _ask_for(side: Side, table: ClientTable, user: str, client: str) -> None:
    found = table.find(user, plain(client))
    if found is not None:
        share, limit = found
        side.ask(f"find {user} {client}", f"[{share.user}, {share.client_id}] {limit}")


@pytest.mark.java
def test_the_same_traffic_is_throttled_for_the_same_time() -> None:
    chance = random.Random(2)
    side = Side()
    for round_number in range(120):
        samples, seconds = ((11, 1), (3, 2), (2, 1))[round_number % 3]
        window = Window(samples, seconds * 1000)
        book, now_ms = QuotaBook(window, window), 1_700_000_000_000 + chance.randint(0, 5000)
        side.script.append(f"new {samples} {seconds}")
        _set_limit(side, book, float(chance.choice((1, 50, 1000))))
        for _ in range(60):
            now_ms += chance.choice((0, 1, 17, 400, 1000, 3001, samples * seconds * 1000 - 1, 20_000))
            _one_event(side, book, chance, now_ms)
    side.check()


def _set_limit(side: Side, book: QuotaBook, limit: float) -> None:
    keys = (QuotaKey.PRODUCE.value, QuotaKey.MUTATION.value)
    book.replace({entity("ann", "-"): dict.fromkeys(keys, limit)})
    side.script.append(f"quota ann - {limit}")


def _one_event(side: Side, book: QuotaBook, chance: random.Random, now_ms: int) -> None:
    sensors = book.client("ann", chance.choice(("c1", "c2")), now_ms)
    assert sensors.produce is not None
    assert sensors.mutation is not None
    value = chance.choice((0, 1, 7, 300, 5000))
    kind = chance.random()
    if kind < 0.1:
        _set_limit(side, book, float(chance.choice((1, 50, 1000))))
    elif kind < 0.2:
        side.script.append(f"unrecord ann c1 {value} {now_ms}")
        sensors.produce.record_unchecked(-value, now_ms)
    elif kind < 0.3:
        side.ask(f"strict ann c1 {value} {now_ms}", sensors.mutation.record_strictly(value, now_ms))
    elif kind < 0.4:
        side.ask(f"permissive ann c1 {value} {now_ms}", sensors.mutation.record(value, now_ms))
    else:
        side.ask(f"record ann c1 {value} {now_ms}", sensors.produce.record(value, now_ms))
