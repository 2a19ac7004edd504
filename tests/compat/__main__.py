"""`python -m compat`: run every column, tool and framework, and write docs/compatibility.md.

Needs `tests` and the repository on PYTHONPATH (`make compat` sees to it). With --broker kafka the same runs against an
Apache Kafka process, to check the programs themselves; nothing is written then.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from benchmarks.kafka_jars import kafka_version

from compat.broker import BROKER_SETTINGS, KAFKA_SETTINGS
from compat.card import Card, page
from compat.columns import COLUMNS, BuildFailed, Column, Unavailable
from compat.run import Cell, run_column
from compat.tools import SCENARIOS, ToolCell, run_tool
from compat.users import USERS, run_user, version
from harness.kafka import running_small_kafka
from harness.process import BrokerProcess

CALM = re.compile(r" INFO |^Runnel serves|^  ")
PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


@contextmanager
def running(broker: str) -> Iterator[str]:
    """The address of a new broker for as long as a part of the run takes."""
    with tempfile.TemporaryDirectory(prefix="compat-") as folder, STARTERS[broker](Path(folder)) as address:
        yield address


@contextmanager
def _kafka(folder: Path) -> Iterator[str]:
    with running_small_kafka(folder, KAFKA_SETTINGS) as kafka:
        yield kafka.bootstrap


@contextmanager
def _runnel(folder: Path) -> Iterator[str]:
    process = BrokerProcess(folder, settings=BROKER_SETTINGS).start()
    try:
        yield process.address
    finally:
        process.terminate()
        # Of a long text only the end is kept, so that its first line may be a part of one.
        complaints = [line for line in process.stderr_text().splitlines()[1:] if not CALM.search(line)]
        sys.stderr.write("\n".join(["what the broker logged:", *complaints, ""]) if complaints else "")


STARTERS = {"runnel": _runnel, "kafka": _kafka}


def columns_of(card: Card, bootstrap: str, wanted: list[str], jobs: int) -> None:
    def run(column: Column) -> dict[str, Cell] | str:
        try:
            return run_column(column, bootstrap, f"{column.id}.{secrets.token_hex(2)}")
        except (Unavailable, BuildFailed) as reason:
            return str(reason)

    with ThreadPoolExecutor(jobs) as pool:
        for id, found in zip(wanted, pool.map(run, [COLUMNS[id] for id in wanted]), strict=True):
            if isinstance(found, str):
                card.not_run[id], card.versions[id] = found.splitlines()[0], ""
                say(f"{id}: not run: {found}")
                continue
            card.versions[id], card.cells[id] = COLUMNS[id].version(), found
            for feature, cell in found.items():
                if cell.result == "FAIL":
                    say(f"{id}: {feature}: FAIL: {cell.detail}")
            say(f"{id}: {sum(cell.result == 'ok' for cell in found.values())} ok")


def tools_of(card: Card, bootstrap: str) -> None:
    card.tools_version = kafka_version()
    for name in SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="compat-") as folder:
            cell: ToolCell = run_tool(name, bootstrap, f"tool-{secrets.token_hex(2)}", Path(folder))
        card.tools[name] = cell
        say(f"{name}: {cell.result} {cell.detail}".rstrip())


def users_of(card: Card, bootstrap: str) -> None:
    for user in USERS:
        try:
            cell = run_user(user, bootstrap, f"user-{secrets.token_hex(2)}")
        except BuildFailed as reason:
            cell = Cell("not run", str(reason))
        card.users[user.title] = (version(user), user.checked, cell)
        say(f"{user.title}: {cell.result} {cell.detail}".rstrip())


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    options = _options()
    card = Card(
        date=datetime.date.today().isoformat(),
        broker=f"Runnel {metadata.version('runnel')}",
        machine=f"Linux {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    )
    parts = options.parts.split(",")
    if "columns" in parts:
        with running(options.broker) as bootstrap:
            columns_of(card, bootstrap, options.columns.split(","), options.jobs)
    if "users" in parts:
        with running(options.broker) as bootstrap:
            users_of(card, bootstrap)
    if "tools" in parts:
        with running(options.broker) as bootstrap:
            tools_of(card, bootstrap)
    complete = options.broker == "runnel" and parts == PARTS and options.columns == ",".join(COLUMNS)
    if complete:
        PAGE.write_text(page(card))
        say(f"{PAGE.relative_to(Path.cwd())} is written")
    return 1 if _failed(card) else 0


def _failed(card: Card) -> bool:
    cells = [cell for cells in card.cells.values() for cell in cells.values()]
    return any(
        cell.result == "FAIL" for cell in [*cells, *card.tools.values(), *(row[2] for row in card.users.values())]
    )


PARTS = ["columns", "users", "tools"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compat", description=__doc__)
    parser.add_argument("--broker", choices=list(STARTERS), default="runnel")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="the page is written when all of them run")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--jobs", type=int, default=2, help="columns that run at the same time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
