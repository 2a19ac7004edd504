"""What a random sequence has made so far, as both brokers should know it.

In: a seed. Out: random names, offsets and versions that fit it, and `ask`, which stops at the first difference.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from differential.both import Both, Pair
from differential.names import Name
from differential.shapes import STRANGER
from differential.sides import MAIN
from differential.versions import SERVED

TRAIL_MAX = 40
TOPICS_MAX = 4
STRANGE_NAMES = ("nope", "a b", "")


class Found(AssertionError):
    """The brokers differ; the message has the way there."""


@dataclass(slots=True)
class IdempotentProducer:
    name: Name
    epoch: int = 0
    next_sequences: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class FetchSession:
    name: Name
    version: int
    epoch: int = 1


class World:
    def __init__(self, both: Both, seed: int) -> None:
        self.both = both
        self.seed = seed
        self.chance = random.Random(seed)
        self.partitions: dict[str, int] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.producers: list[IdempotentProducer] = []
        self.sessions: list[FetchSession] = []
        self._trail: deque[str] = deque(maxlen=TRAIL_MAX)
        self._made = 0

    # --- asking -----------------------------------------------------------------------------------------------

    def version(self, api_key: int, lowest: int = 0, highest: int = 1 << 15) -> int:
        return self.chance.choice([v for v in SERVED[api_key] if lowest <= v <= highest])

    def ask(
        self, api_key: int, body: Mapping[str, Any], version: int | None = None, *, on: str = MAIN, settle: bool = False
    ) -> Pair:
        version = self.version(api_key) if version is None else version
        self.note(f"{api_key} v{version} on {on}: {dict(body)}")
        pair = self.both.ask(api_key, version, body, on=on, settle=settle)
        self.stop_if_different()
        return pair

    def note(self, text: str) -> None:
        self._trail.append(text)

    def stop_if_different(self) -> None:
        if self.both.found:
            differences = "\n".join(str(finding) for finding in self.both.found[:10])
            way = "\n".join(self._trail)
            alone = f"RUNNEL_TEST_SEED={self.seed} RUNNEL_TEST_SEEDS=1"
            raise Found(f"seed {self.seed} ({alone} plays it alone):\n{differences}\nthe way there:\n{way}")

    # --- picking ----------------------------------------------------------------------------------------------

    def new_name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self.seed}-{self._made}"

    def topic(self) -> str:
        """Mostly one that exists."""
        if not self.partitions or self.chance.random() < 0.07:
            return self.chance.choice(STRANGE_NAMES)
        return self.chance.choice(list(self.partitions))

    def where(self, topic: str, field_name: str = "name") -> dict[str, Any]:
        """The topic by name and id; the version takes what it has."""
        known = topic in self.partitions
        return {field_name: topic, "topic_id": Name("topic", topic) if known else STRANGER}

    def partition(self, topic: str) -> int:
        count = self.partitions.get(topic, 1)
        return (
            self.chance.choice([*range(count), *range(count), count, -1])
            if self.chance.random() < 0.2
            else self.chance.randrange(count)
        )

    def offset(self, topic: str, partition: int) -> int:
        end = self.ends.get((topic, partition), 0)
        return self.chance.choice(
            [0, end, end + 1, -1, self.chance.randint(0, end + 2), self.chance.randint(0, end + 2)]
        )

    def epoch(self) -> int:
        return self.chance.choice([-1, -1, -1, 0, 0, 1])
