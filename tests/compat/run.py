"""One column's program against one broker: started, timed, read line by line, checked from outside.

In: a column, an address, a prefix for names. Out: a cell for each feature, "ok" with no detail or "FAIL" with one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from compat import outside
from compat.absent import ABSENT
from compat.columns import Column, environment
from compat.features import IDS
from harness.raw import RawConnection

COLUMN_SECONDS = 600.0
# Kafka averages over about ten seconds, so 600 kB in one go are more than this allows.
THROTTLED_BYTES_PER_SECOND = 50_000.0
ALTER_CLIENT_QUOTAS = 49


class Cell(NamedTuple):
    """How one scenario ended."""

    result: str  # ok, FAIL or n/a
    detail: str = ""


def run_column(column: Column, bootstrap: str, prefix: str, features: Sequence[str] = IDS) -> dict[str, Cell]:
    """Every feature has a cell, whatever the program does."""
    cells = {feature: Cell("n/a", ABSENT[column.id, feature]) for feature in features if (column.id, feature) in ABSENT}
    wanted = [feature for feature in features if feature not in cells]
    command = [*column.prepare(), bootstrap, prefix, *wanted]
    if "throttle" in wanted:
        give_quota(bootstrap, f"{prefix}.throttle")
    said, problem = _run(command)
    for feature in wanted:
        cells[feature] = said.get(feature) or Cell("FAIL", f"no answer: {problem}")
        if cells[feature].result == "ok":
            cells[feature] = _from_outside(bootstrap, feature, f"{prefix}.{feature}")
    return {feature: cells[feature] for feature in features}


def _run(command: Sequence[str]) -> tuple[dict[str, Cell], str]:
    """What the program said of each feature, and how it ended."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        stdout, stderr = process.communicate(timeout=COLUMN_SECONDS)
        problem = f"the program ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        problem = f"the program was still running after {COLUMN_SECONDS:.0f} s"
    return _cells(stdout), f"{problem}; {stderr[-2000:]}"


def _cells(stdout: str) -> dict[str, Cell]:
    found = {}
    for line in stdout.splitlines():
        if line.startswith("{"):
            said = json.loads(line)
            found[said["scenario"]] = Cell(said["result"], said.get("detail", ""))
    return found


def _from_outside(bootstrap: str, feature: str, topic: str) -> Cell:
    try:
        outside.check(bootstrap, feature, topic)
    except AssertionError as problem:
        return Cell("FAIL", str(problem))
    return Cell("ok")


def give_quota(bootstrap: str, client_id: str) -> None:
    """A byte rate for the client id of a `throttle` scenario, which not every client could set itself."""
    entity = [{"entity_type": "client-id", "entity_name": client_id}]
    ops = [{"key": "producer_byte_rate", "value": THROTTLED_BYTES_PER_SECOND, "remove": False}]
    with RawConnection(bootstrap) as connection:
        reply = connection.request(ALTER_CLIENT_QUOTAS, 1, {"entries": [{"entity": entity, "ops": ops}]})
    if reply.entries[0].error_code:
        raise AssertionError(f"the quota was refused: {reply.entries[0]}")
