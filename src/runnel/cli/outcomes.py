"""What became of each topic in a request about several: as lines or as JSON, and as an exit code; and asking first."""

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
    for outcome in results:
        if outcome.error is not None:
            click.echo(f"Error: {outcome.error.message}", err=True)
        elif not as_json:
            click.echo((untouched if outcome.untouched else done).format(name=outcome.name))
    return EXIT_FAILED if any(outcome.error for outcome in results) else 0


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
