"""Requests about several things, of which each gets an answer of its own.

In: keys, and how to ask about some of them. Out: for each key its row of the reply and what went wrong with
it, if anything did. What was answered with "not here" or "not yet" is asked again; the rest is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from runnel.client.cluster import Cluster, Patience
from runnel.client.errors import ClientError, refused
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

# These say "not here" or "not yet", before anything was done.
PASSING = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)

Key = TypeVar("Key", bound=Hashable)


async def settle(
    cluster: Cluster,
    keys: Iterable[Key],
    send: Callable[[Sequence[Key]], Awaitable[Iterable[tuple[Key, Struct]]]],
    subject: Callable[[Key], str],
) -> dict[Key, tuple[Struct, ClientError | None]]:
    """Send until each key has a final answer; only what was not yet touched is sent again."""
    settled: dict[Key, tuple[Struct, ClientError | None]] = {}
    patience = Patience(cluster.timeout_s)
    wanted = list(dict.fromkeys(keys))
    while remaining := [key for key in wanted if key not in settled]:
        passing: ClientError | None = None
        for key, row in await send(remaining):
            error = _error(row, subject(key))
            if error is not None and error.code in PASSING:
                passing = error
            else:
                settled[key] = row, error
        if len(settled) < len(wanted):
            await patience.wait_or_raise(passing or _left_out([subject(key) for key in wanted if key not in settled]))
            await cluster.refresh(())
    return {key: settled[key] for key in wanted}


def _error(row: Struct, subject: str) -> ClientError | None:
    # Some replies (DeleteGroups) have no field for a message in any version.
    return refused(row.error_code, subject, getattr(row, "error_message", None)) if row.error_code else None


def _left_out(subjects: Sequence[str]) -> ClientError:
    return ClientError(f"the broker's answer leaves out {', '.join(subjects)}")
