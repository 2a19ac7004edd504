"""The result of the shop in one shape, whether plain Python computed it or the pipeline made it.

Times are milliseconds since 1970, money is cents, windows go by their start.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import NamedTuple

DIFFERENCES_SHOWN = 5


class Payment(NamedTuple):
    """An attempt to pay an order."""

    order_id: str
    payment_id: str
    amount_cents: int
    paid_cents: int
    status: str
    ordered_ms: int
    paid_ms: int


class Revenue(NamedTuple):
    captured: int
    failed: int
    revenue_cents: int


class Funnel(NamedTuple):
    visitors: int
    carts: int
    orders: int
    paid: int


@dataclass(slots=True)
class Outcome:
    """Everything is counted, so that a row which is there twice is seen."""

    topic_records: Counter[str] = field(default_factory=Counter)
    """By topic."""
    sound_records: Counter[str] = field(default_factory=Counter)
    """Rows of the lake's table of events, by topic."""
    set_aside: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Dead letters in the lake, by topic and reason."""
    payments: Counter[Payment] = field(default_factory=Counter)
    """Rows of the lake's table of order payments."""
    revenue: dict[int, Revenue] = field(default_factory=dict)
    """Windows that are closed."""
    funnel: dict[int, Funnel] = field(default_factory=dict)
    alerts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records of the topic of alerts, by kind and subject."""


def differences(expected: Outcome, found: Outcome) -> list[str]:
    """A line for each figure that is not what it must be; none where all is well."""
    lines = []
    for part in fields(Outcome):
        wanted, there = getattr(expected, part.name), getattr(found, part.name)
        wrong = [key for key in {**wanted, **there} if wanted.get(key) != there.get(key)]
        name = part.name.replace("_", " ")
        for key in wrong[:DIFFERENCES_SHOWN]:
            lines.append(f"{name}, {_told(key)}: expected {_told(wanted.get(key))}, found {_told(there.get(key))}")
        if len(wrong) > DIFFERENCES_SHOWN:
            lines.append(f"{name}: {len(wrong) - DIFFERENCES_SHOWN} more differ")
    return lines


def _told(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return " ".join(map(str, value))
    return str(value)
