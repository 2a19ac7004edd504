"""What Spark says in words during a run: which flow it is about, how that fares, and what went wrong.

In: messages of pipeline events and exceptions. Out: `FlowEvent`s and short texts. The events of Spark Connect have no
fields but a time and a text, so the text is read.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

STATUSES = (
    "QUEUED",
    "PLANNING",
    "STARTING",
    "RUNNING",
    "COMPLETED",
    "FAILED",
    "SKIPPED",
    "EXCLUDED",
    "STOPPED",
    "IDLE",
)
_FLOW = re.compile(
    r"^(?:Flow |Failed to (?:resolve|start) flow(?P<upstream> due to upstream failure)?:? )"
    r"'?(?P<flow>[^\s']+?)'?(?:\.\s*$|\.?\s*\n|\s(?P<rest>.*))",
    re.DOTALL,
)
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_STATUS = re.compile(rf"\b({'|'.join(STATUSES)})\b")
_ERROR = re.compile(r"\bError: ?(?P<error>.*)$", re.DOTALL)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ")
_NOISE = (
    # What Spark puts around a failed query's own words: its ids before them, its plan and the JVM's stack after them.
    re.compile(r"\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: "),
    re.compile(r"\s*=== Streaming Query ===.*", re.DOTALL),
    re.compile(r"\s*(JVM stacktrace:|Driver stacktrace:).*", re.DOTALL),
    re.compile(r"\s*\nSearch path: \[.*IF EXISTS\.", re.DOTALL),  # what to do about a table that is to be dropped
    re.compile(r"\s*\n\s+at [\w.$]+\(.*", re.DOTALL),
    re.compile(r"\s*SQLSTATE: \w+((; line \d+ pos \d+)?;\n.*)?", re.DOTALL),
    re.compile(r";\n[^\n]+\n[+:]- .*", re.DOTALL),  # a plan, for what a stream cannot do
    re.compile(r"^(\(?org\.apache\.[\w.$]+\)?:? )+"),
    re.compile(r"^runnel\.[\w.]+: "),  # our own errors speak for themselves
)
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):.*\n(?P<error>[A-Za-z_][\w.]*(?:: .*)?)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FlowEvent:
    flow: str
    status: str
    error: str | None = None


def flow_event(message: str) -> FlowEvent | None:
    """What an event says about a flow; None where it is about something else."""
    found = _FLOW.match(message)
    if found is None:
        return None
    if found.group("upstream"):  # a consequence: what failed has an event of its own
        return FlowEvent(found.group("flow"), "SKIPPED")
    status = "FAILED" if message.startswith("Failed") else _first(_STATUS, found.group("rest") or message)
    error = _first(_ERROR, message)
    return FlowEvent(found.group("flow"), status, shortened(error) if error else None) if status else None


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1).strip() if found else ""


def plain_message(error: BaseException) -> str:
    """An exception's text for people: without the JVM's stack."""
    return shortened(str(error))


def shortened(text: str) -> str:
    """What went wrong, without where in Spark; of a Python traceback its last line."""
    for noise in _NOISE:
        text = noise.sub("", text)
    traceback = _PYTHON_ERROR.search(text.strip())
    return _NOISE[-1].sub("", traceback.group("error").strip() if traceback else text.strip())


def condition(text: str) -> str:
    """Spark's name for an error, e.g. UNRESOLVED_COLUMN.WITH_SUGGESTION; empty where it has none."""
    return _first(_CONDITION, text)


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """PySpark also prints an error that knows its query, as a long line of JSON: here it is told in other words."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was
