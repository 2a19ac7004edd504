"""The page: docs/compatibility.md from the cells of one run.

In: what a run found. Out: Markdown. Nothing is decided here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from compat.columns import COLUMNS
from compat.features import AREAS, FEATURES, Feature
from compat.run import Cell
from compat.tools import ToolCell

LINES_SHOWN = 3
LINE_CHARACTERS = 150
DETAIL_CHARACTERS = 200


@dataclass(slots=True)
class Card:
    """Everything that one run found."""

    date: str = ""
    broker: str = ""
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)  # column -> feature -> cell
    not_run: dict[str, str] = field(default_factory=dict)  # column -> why
    tools: dict[str, ToolCell] = field(default_factory=dict)
    tools_version: str = ""
    users: dict[str, tuple[str, str, Cell]] = field(default_factory=dict)  # title -> version, what is checked, cell


def page(card: Card) -> str:
    parts = [_head(card), *(_area(card, area) for area in AREAS), _counts(card), _reasons(card)]
    parts += [_users(card), _tools(card), _ends()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(card: Card) -> str:
    versions = "\n".join(
        f"| {COLUMNS[column].title} | {f'not run: {card.not_run[column]}' if column in card.not_run else version} |"
        for column, version in card.versions.items()
    )
    return f"""# Compatibility

Written by `make compat`; do not edit. Each cell is a scenario that was really run: a program that uses the client as
its users do, against a `runnel serve` process. It checks bytes, order, counts and offsets, and some of it is checked
again from outside of the client. {card.date}, {card.broker}, {card.machine}.

| client | version |
|---|---|
{versions}

**ok**: everything was as it must be. **FAIL**: something was not. **n/a**: the client has no such feature
([why](#what-a-client-does-not-have)). `make compat ARGS="--broker kafka"` runs the same programs against Apache Kafka;
there each of these cells was ok when the program was written."""


def _area(card: Card, area: str) -> str:
    columns = list(card.versions)
    rows = [_row(card, feature, columns) for feature in FEATURES if feature.area == area]
    titles = " | ".join(COLUMNS[column].title for column in columns)
    return f"## {area}\n\n| | {titles} | what is checked |\n|---|{'---|' * (len(columns) + 1)}\n" + "\n".join(rows)


def _row(card: Card, feature: Feature, columns: list[str]) -> str:
    words = [_word(card, column, feature.id) for column in columns]
    return f"| {feature.title} | {' | '.join(words)} | {feature.checked} |"


def _word(card: Card, column: str, feature: str) -> str:
    if column in card.not_run:
        return "not run"
    result = card.cells[column][feature].result
    return result if result in ("ok", "n/a") else f"**{result}**"


def _counts(card: Card) -> str:
    rows = []
    for column, cells in card.cells.items():
        counts = Counter(cell.result for cell in cells.values())
        rows.append(f"| {COLUMNS[column].title} | {counts['ok']} | {counts['FAIL']} | {counts['n/a']} |")
    return "## In numbers\n\n| | ok | FAIL | n/a |\n|---|---|---|---|\n" + "\n".join(rows) + _failures(card)


def _failures(card: Card) -> str:
    rows = [
        f"- {COLUMNS[column].title}, {feature}: {_escaped(cell.detail)[:DETAIL_CHARACTERS]}"
        for column, cells in card.cells.items()
        for feature, cell in cells.items()
        if cell.result == "FAIL"
    ]
    return "\n\nWhat failed:\n\n" + "\n".join(rows) if rows else ""


def _reasons(card: Card) -> str:
    titles = {feature.id: feature.title for feature in FEATURES}
    rows = []
    for column, cells in card.cells.items():
        reasons: dict[str, list[str]] = {}
        for feature, cell in cells.items():
            if cell.result == "n/a":
                reasons.setdefault(cell.detail, []).append(titles[feature])
        rows += [f"| {COLUMNS[column].title} | {'; '.join(names)} | {reason} |" for reason, names in reasons.items()]
    table = "| client | features | reason |\n|---|---|---|\n" + "\n".join(rows)
    return f"## What a client does not have\n\n{table}"


def _users(card: Card) -> str:
    if not card.users:
        return ""
    rows = [
        f"| {title} | {version} | {cell.result if cell.result == 'ok' else f'**{cell.result}**'} | {checked} |"
        for title, (version, checked, cell) in card.users.items()
    ]
    table = "| | version | | what is checked |\n|---|---|---|---|\n" + "\n".join(rows)
    return f"## Frameworks on top of the clients\n\n{table}"


def _tools(card: Card) -> str:
    if not card.tools:
        return ""
    names = [f"| `{name}` | {_tool_word(cell)} |" for name, cell in card.tools.items()]
    table = "| tool | |\n|---|---|\n" + "\n".join(names)
    shown = "\n\n".join(_tool(name, cell) for name, cell in card.tools.items())
    return f"""## Command-line tools

Apache Kafka {card.tools_version}'s own, each as the process that its script starts, and kcat.

{table}

What was typed, what was printed (shortened) and the exit code:

{shown}"""


def _tool_word(cell: ToolCell) -> str:
    words = {"ok": "ok", "not run": f"not run: {cell.detail}"}
    return words.get(cell.result, f"**{cell.result}**: {_escaped(cell.detail)[:DETAIL_CHARACTERS]}")


def _tool(name: str, cell: ToolCell) -> str:
    lines = []
    for call in cell.calls:
        lines += [f"$ {call.command}", *_shortened(call.said), f"[exit code {call.code}]"]
    return f"### {name}\n\n```text\n" + "\n".join(lines) + "\n```"


def _shortened(said: str) -> list[str]:
    lines = [re.sub(r"\s+", " ", line).strip()[:LINE_CHARACTERS] for line in said.splitlines() if line.strip()]
    more = [f"... {len(lines) - LINES_SHOWN} more lines"] if len(lines) > LINES_SHOWN else []
    return lines[:LINES_SHOWN] + more


def _escaped(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _ends() -> str:
    return """## Not on this card

What the broker does not have yet: transactions, TLS, SASL and ACLs, share groups and streams groups, fetching from a
follower (there is one broker). They are not advertised; see [limits](limits.md)."""
