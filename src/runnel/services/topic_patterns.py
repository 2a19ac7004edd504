"""Regular expressions over topic names (KIP-848): RE2's syntax, as Kafka's, and RE2's promise of linear time.

In: expressions and the topics of the cluster. Out: the names that match as a whole. What a hostile expression may cost
is bounded: its length, the memory of its compiled form, and the time of one resolution, which runs in a thread. Names
that were looked at once are not looked at again while an expression is in use.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from runnel.wire.errors import ErrorCode, Refusal

REGEX_CHARACTERS_MAX = 1024
REGEX_MEMORY_BYTES_MAX = 64 * 1024
RESOLUTION_SECONDS_MAX = 2.0
PATTERNS_MAX = 1000
NAMES_PER_LOOK_AT_THE_CLOCK = 64


class _Seen(NamedTuple):
    """An expression that was resolved among these topics."""

    pattern: Any
    topics: Mapping[str, object]
    matches: frozenset[str]


class TopicPatterns:
    def __init__(self) -> None:
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    async def matches(self, regex: str, topics: Mapping[str, object]) -> tuple[str, ...]:
        """The names that match, in order. Refusal for an expression that is none, or costs too much."""
        seen = self._seen.get(regex)
        if seen is None or seen.topics is not topics:
            seen = await asyncio.to_thread(_resolve, regex, topics, seen)
            self._seen[regex] = seen
        self._seen.move_to_end(regex)
        while len(self._seen) > PATTERNS_MAX:
            self._seen.popitem(last=False)
        return tuple(sorted(seen.matches))


def _resolve(regex: str, topics: Mapping[str, object], seen: _Seen | None) -> _Seen:
    if seen is None:
        return _Seen(pattern := compile_pattern(regex), topics, _matching(pattern, regex, topics))
    new = topics.keys() - seen.topics.keys()
    return _Seen(seen.pattern, topics, (seen.matches & topics.keys()) | _matching(seen.pattern, regex, new))


def compile_pattern(regex: str) -> Any:
    import re2  # only where somebody subscribes by an expression

    if len(regex) > REGEX_CHARACTERS_MAX:
        raise _invalid(regex, f"longer than {REGEX_CHARACTERS_MAX} characters")
    options = re2.Options()
    options.max_mem = REGEX_MEMORY_BYTES_MAX
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        raise _invalid(regex, reason.decode() if isinstance(reason, bytes) else str(reason)) from error


def _matching(pattern: Any, regex: str, names: Iterable[str]) -> frozenset[str]:
    deadline = time.monotonic() + RESOLUTION_SECONDS_MAX
    found = []
    for number, name in enumerate(names):
        if number % NAMES_PER_LOOK_AT_THE_CLOCK == 0 and time.monotonic() > deadline:
            raise _invalid(regex, f"not resolved within {RESOLUTION_SECONDS_MAX:g} s")
        if pattern.fullmatch(name) is not None:
            found.append(name)
    return frozenset(found)


def _invalid(regex: str, reason: str) -> Refusal:
    shown = regex if len(regex) <= REGEX_CHARACTERS_MAX else f"{regex[:40]}…"
    message = f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {reason}."
    return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
