"""Outcomes per partition as rows per topic, as the request has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from runnel.broker.router import Body
from runnel.core.metadata import PartitionOutcome


def rows_by_topic(
    asked: Iterable[tuple[str, int]],
    outcomes: Iterable[PartitionOutcome],
    row: Callable[[str, list[Body]], Body],
    index_name: str,
) -> list[Body]:
    """``asked``: the topics, and how many of the outcomes, which come in order, are of each."""
    left = iter(outcomes)
    return [
        row(
            topic,
            [
                {index_name: outcome.partition, "error_code": outcome.code, "error_message": outcome.message}
                for outcome in islice(left, count)
            ],
        )
        for topic, count in asked
    ]
