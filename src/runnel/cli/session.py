"""Running a verb's asynchronous work: one event loop, a connected cluster, signals that end it cleanly.

In: a coroutine function that takes a `Cluster`. Out: its result. Ctrl-C, SIGTERM and a reader of our
output that left all cancel the work once; it may then finish what it must (flush, summary). A second
Ctrl-C ends at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from runnel.cli.options import chosen_bootstrap, chosen_timeout_s
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError

COMPLETION_PATIENCE_S = 1.5
CLIENT_ID = "runnel-cli"
READER_GONE = "the reader of the output is gone"

Result = TypeVar("Result")


def run(work: Callable[[Cluster], Awaitable[Result]]) -> Result:
    """Connect, work, disconnect."""

    async def session() -> Result:
        async with open_cluster() as cluster:
            return await work(cluster)

    return asyncio.run(session())


def run_interruptible(work: Callable[[Cluster], Awaitable[int]]) -> int:
    """For verbs that may run for ever: returns the work's exit code, or 128 + the signal that ended it."""

    async def connected() -> int:
        async with open_cluster() as cluster:
            return await _guarded(work(cluster))

    return asyncio.run(connected())


def run_guarded(work: Callable[[], Awaitable[int]]) -> int:
    """The same for work that connects by itself, because it may have to do so again and again."""

    async def session() -> int:
        return await _guarded(work())

    return asyncio.run(session())


def open_cluster() -> Cluster:
    """The cluster that the command line names, not connected yet."""
    return Cluster(chosen_bootstrap(), client_id=CLIENT_ID, timeout_s=chosen_timeout_s())


async def _guarded(work: Awaitable[int]) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    reasons: list[int] = []

    def end(signal_number: int) -> None:
        reasons.append(signal_number)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        task.cancel(READER_GONE if signal_number == signal.SIGPIPE else None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    watched = _watch_output(loop, end)
    try:
        exit_code = await task
    except asyncio.CancelledError:
        exit_code = 0
    finally:
        if watched is not None:
            loop.remove_reader(watched)
    if reasons and reasons[0] == signal.SIGPIPE:
        raise BrokenPipeError
    return 128 + reasons[0] if reasons else exit_code


def reader_is_gone(error: BaseException) -> bool:
    """Whether work ended because nobody reads the output any more: then nothing is said."""
    return isinstance(error, BrokenPipeError) or (
        isinstance(error, asyncio.CancelledError) and error.args == (READER_GONE,)
    )


def _watch_output(loop: asyncio.AbstractEventLoop, end: Callable[[int], None]) -> int | None:
    """Notice when the other end of a pipe goes away even while there is nothing to write (`... | head`)."""
    try:
        output = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(output).st_mode):
            return None
    except (OSError, ValueError):
        return None

    def gone() -> None:
        loop.remove_reader(output)
        end(signal.SIGPIPE)

    loop.add_reader(output, gone)
    return output


def names_quickly(kind: str, bootstrap: str) -> list[str]:
    """For shell completion: the names if a broker answers at once, else nothing, and never an error."""

    async def ask() -> list[str]:
        async with Cluster(bootstrap, client_id=CLIENT_ID, timeout_s=COMPLETION_PATIENCE_S) as cluster:
            return sorted(await _NAMES[kind](cluster))

    try:
        return asyncio.run(asyncio.wait_for(ask(), COMPLETION_PATIENCE_S))
    except (ClientError, TimeoutError, OSError):
        return []


async def _topic_names(cluster: Cluster) -> list[str]:
    view = await cluster.refresh(None)
    return [name for name, topic in view.topics.items() if not topic.internal]


async def _group_names(cluster: Cluster) -> list[str]:
    from runnel.client.groups import list_groups

    return [group.group_id for group in await list_groups(cluster)]


async def _broker_ids(cluster: Cluster) -> list[str]:
    return [str(node_id) for node_id in cluster.view.brokers]


_NAMES: dict[str, Callable[[Cluster], Awaitable[list[str]]]] = {
    "topic": _topic_names,
    "group": _group_names,
    "broker": _broker_ids,
}
