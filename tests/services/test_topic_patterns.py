"""Expressions over topic names: what matches, what is refused, and what a hostile one may cost."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from runnel.services import topic_patterns
from runnel.services.topic_patterns import TopicPatterns, compile_pattern
from runnel.wire.errors import ErrorCode, Refusal

TOPICS = dict.fromkeys(["orders", "orders-eu", "orders-us", "Orders", "payments"])


def matches(regex: str, topics: dict[str, None] = TOPICS) -> tuple[str, ...]:
    return asyncio.run(TopicPatterns().matches(regex, topics))


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        ("orders", ("orders",)),
        ("orders-.*", ("orders-eu", "orders-us")),
        ("order", ()),
        ("orders|payments", ("orders", "payments")),
        ("(?i)orders", ("Orders", "orders")),
        ("^orders-(eu|us)$", ("orders-eu", "orders-us")),
        (".*", ("Orders", "orders", "orders-eu", "orders-us", "payments")),
        ("", ()),
    ],
)
def test_whole_names_are_matched(regex: str, expected: tuple[str, ...]) -> None:
    assert matches(regex) == expected


@pytest.mark.parametrize("regex", ["(", "[", "a**", r"(a)\1", "(?=a)", "(?<!a)b", "(?>a)", "a{2000}", r"\pL{200}"])
def test_what_re2_does_not_know_is_refused(regex: str) -> None:
    with pytest.raises(Refusal) as caught:
        compile_pattern(regex)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert f"`{regex}` is not a valid regular expression" in caught.value.message


def test_a_long_expression_is_refused_and_shown_in_part() -> None:
    with pytest.raises(Refusal, match="longer than 1024 characters"):
        compile_pattern("a" * 1025)
    assert compile_pattern("a" * 1024).fullmatch("a") is None


def test_topics_that_come_and_go_are_noticed() -> None:
    async def scenario() -> None:
        patterns = TopicPatterns()
        assert await patterns.matches("orders-.*", TOPICS) == ("orders-eu", "orders-us")
        later = {name: None for name in (*TOPICS, "orders-asia") if name != "orders-us"}
        assert await patterns.matches("orders-.*", later) == ("orders-asia", "orders-eu")

    asyncio.run(scenario())


def test_names_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[str]:
        patterns, looked = TopicPatterns(), []
        found = topic_patterns._matching

        def counting(pattern: object, regex: str, names: object) -> frozenset[str]:
            looked.extend(names)  # type: ignore[arg-type]
            return found(pattern, regex, names)  # type: ignore[arg-type]

        monkeypatch.setattr(topic_patterns, "_matching", counting)
        await patterns.matches("a.*", {"a": None, "b": None})
        topics = {"a": None, "b": None, "ab": None}
        await patterns.matches("a.*", topics)
        await patterns.matches("a.*", topics)
        return looked

    assert asyncio.run(scenario()) == ["a", "b", "ab"]


def test_a_resolution_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_patterns, "RESOLUTION_SECONDS_MAX", -1.0)
    with pytest.raises(Refusal, match="not resolved within"):
        matches("a")


def test_a_hostile_expression_does_not_hold_up_the_others() -> None:
    """The worst that we know for names of the longest kind, and a bomb for engines that backtrack."""

    async def scenario() -> int:
        names = {f"{number:04}".rjust(249, "a"): None for number in range(100)}
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.ensure_future(others())
        for regex in ("(?:a?){1000}b", "((a{1,100}){1,10})x", "(a+)+$", "(a|aa)+b", "(x+x+)+y"):
            with contextlib.suppress(Refusal):  # on a slow machine its time is up
                assert await TopicPatterns().matches(regex, names) == ()
        beside.cancel()
        return turns

    assert asyncio.run(scenario()) > 100
