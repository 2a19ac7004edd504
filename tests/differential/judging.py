"""Telling accepted differences from others.

In: rows of `Accepted` and the differences of a reply. Out: the differences that no row covers, and rows never used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from differential.compare import Difference


@dataclass(frozen=True, slots=True)
class Accepted:
    what: str
    """In words, for the page."""
    why: str
    apis: tuple[int, ...]
    """API keys, () for all."""
    field: str
    """Glob over the path without array keys, e.g. `topics.partitions.error_code`."""
    kafka: object = ...
    """A value, a tuple of values, a function of the value; `...` for any."""
    runnel: object = ...
    where: str = ""
    """Regular expression that the path with array keys must contain."""
    request: Callable[[Mapping[str, Any]], bool] | None = None
    """What the request must be like."""
    versions: range = range(1 << 15)

    def covers(self, api_key: int, version: int, body: Mapping[str, Any], difference: Difference) -> bool:
        return (
            (not self.apis or api_key in self.apis)
            and version in self.versions
            and fnmatchcase(difference.shape, self.field)
            and matches(self.kafka, difference.kafka)
            and matches(self.runnel, difference.runnel)
            and (not self.where or re.search(self.where, difference.path) is not None)
            and (self.request is None or self.request(body))
        )


def matches(wanted: object, value: object) -> bool:
    if wanted is ...:
        return True
    if callable(wanted):
        return bool(wanted(value))
    return value in wanted if isinstance(wanted, tuple) else value == wanted


class Judge:
    """Tells accepted differences from others, and remembers which rows were used."""

    def __init__(self, table: Sequence[Accepted]) -> None:
        self._unused = dict.fromkeys(range(len(table)))
        self._table = table

    def unaccepted(
        self, api_key: int, version: int, body: Mapping[str, Any], found: list[Difference]
    ) -> list[Difference]:
        return [difference for difference in found if not self._accepts(api_key, version, body, difference)]

    def _accepts(self, api_key: int, version: int, body: Mapping[str, Any], difference: Difference) -> bool:
        for number, row in enumerate(self._table):
            if row.covers(api_key, version, body, difference):
                self._unused.pop(number, None)
                return True
        return False

    @property
    def unused(self) -> list[Accepted]:
        return [self._table[number] for number in self._unused]


def asks(**fields: object) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a request has, anywhere in it, one of these fields with such a value (as in `Accepted.kafka`)."""

    def found(body: Any) -> bool:
        if isinstance(body, Mapping):
            here = any(name in fields and matches(fields[name], value) for name, value in body.items())
            return here or any(found(value) for value in body.values())
        return isinstance(body, list) and any(found(item) for item in body)

    return found
