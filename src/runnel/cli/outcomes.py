"""What became of each thing in a request about several: as lines or as JSON, and as an exit code; and asking first."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from runnel.cli.output import print_json
from runnel.client.admin import Outcome
from runnel.client.errors import ClientError
from runnel.wire.errors import ErrorCode

EXIT_FAILED = 1


def confirm(question: str, yes: bool) -> None:
    """Ask only where somebody can answer; scripts are not held up."""
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        click.confirm(question, abort=True, err=True)


def report(outcomes: Iterable[Outcome], done: str, *, as_json: bool, untouched: str = "", kind: str = "topic") -> int:
    """Print what became of each topic (or group); the exit code says whether all went well."""
    results = list(outcomes)
    if as_json:
        print_json([outcome_document(outcome, kind) for outcome in results])
    lines = [(untouched if outcome.untouched else done).format(name=outcome.name) for outcome in results]
    return tell([(line, outcome.error) for line, outcome in zip(lines, results, strict=True)], as_json=as_json)


def tell(rows: Iterable[tuple[str, ClientError | None]], *, as_json: bool) -> int:
    """A line for each thing: what was done, or on stderr what went wrong; the exit code says whether all went well."""
    failed = False
    for line, error in rows:
        if error is not None:
            failed = True
            click.echo(f"Error: {error.message}", err=True)
        elif not as_json:
            click.echo(line)
    return EXIT_FAILED if failed else 0


def complain(found: Iterable[object]) -> int:
    """A line on stderr for each error among what was found; the exit code."""
    return tell([("", each) for each in found if isinstance(each, ClientError)], as_json=True)


def outcome_document(outcome: Outcome, kind: str = "topic") -> dict[str, Any]:
    return {kind: outcome.name, **error_fields(outcome.error)}


def error_fields(error: ClientError | None) -> dict[str, Any]:
    """How any JSON document of ours says whether something went well."""
    return {
        "ok": error is None,
        "error_code": error.code.name if error is not None and error.code is not None else None,
        "error": error.message if error is not None else None,
    }


def forgive(outcome: Outcome, code: ErrorCode) -> Outcome:
    """The same outcome without its error, where the user declared that error to be fine."""
    if outcome.error is None or outcome.error.code is not code:
        return outcome
    return Outcome(outcome.name, None, untouched=True)
