"""How results look: tables for a terminal, plain columns for a pipe, JSON for programs; notes go to stderr.

In: rows of values. Out: text. rich is imported only when a person is looking at a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def print_json(document: Any) -> None:
    """One document, readable; streams of records use `json_line`."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def json_line(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def note(message: str) -> None:
    """For the person at the terminal; never mixed into the output."""
    click.echo(message, err=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Numbers to the right, text to the left."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    numeric = [bool(cells) and all(_looks_numeric(row[column]) for row in cells) for column in range(len(columns))]
    if sys.stdout.isatty():
        _print_rich(columns, cells, numeric, title)
    else:
        _print_plain(columns, cells, numeric, title)


def _looks_numeric(cell: str) -> bool:
    return cell in ("", "-") or cell.lstrip("-").replace(".", "", 1).isdigit()


def _print_plain(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], title: str | None
) -> None:
    if title:
        click.echo(title)
    lines = [[column.upper().replace(" ", "-") for column in columns], *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    for line in lines:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def _print_rich(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], title: str | None
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column, right in zip(columns, numeric, strict=True):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def iso_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC, to the millisecond; `-` where a record has no time."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms}ms"  # nonsense that a client sent as microseconds or the like
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def human_bytes(size: float) -> str:
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def counted(number: int, word: str, plural: str | None = None) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {plural or word + 's'}"
