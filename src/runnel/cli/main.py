"""Where the command starts: finds the verb, turns every failure into one line and an exit code.

Imports only click and the standard library: each verb's module is loaded when it is called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from runnel.cli.options import bootstrap_options
from runnel.cli.verbs import LazyVerbs

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

# verb: where it lives, and its line in `runnel --help`
VERBS: dict[str, tuple[str, str]] = {
    "serve": ("runnel.cli.serve:serve", "Start a broker."),
    "topic": ("runnel.cli.topic:topic", "Create, list, describe, change, trim and delete topics."),
    "produce": ("runnel.cli.produce:produce", "Send records, from arguments, pipes or files."),
    "consume": ("runnel.cli.consume:consume", "Read records, from any position."),
    "group": ("runnel.cli.group:group", "List, describe, reset and delete consumer groups."),
    "config": ("runnel.cli.config:config", "Describe and change configs of topics, brokers and groups."),
    "quota": ("runnel.cli.quota:quota", "Limit users, clients and addresses."),
    "user": ("runnel.cli.user:user", "Create and delete users with passwords (SCRAM)."),
    "cluster": ("runnel.cli.cluster:cluster", "Brokers, features and health of the cluster."),
    "log": ("runnel.cli.log:log", "Look into data directories, check and repair them."),
    "lake": ("runnel.cli.lake:lake", "Look after lake tables, and prove that one equals its topic."),
    "demo": ("runnel.cli.demo:demo", "A shop from end to end: broker, events, Spark pipeline, results."),
    "pipeline": ("runnel.cli.pipeline:pipeline", "Make, check, run and watch Spark pipelines over topics."),
    "doctor": ("runnel.cli.doctor:doctor", "Find out why a client cannot work with a broker."),
    "completion": ("runnel.cli.completion:completion", "Print shell completion for bash, zsh or fish."),
    "version": ("runnel.cli.version:version", "Print the version."),
}


class VerbGroup(LazyVerbs):
    """The root group: errors as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            return _silence_stdout()
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        try:
            extra["standalone_mode"] = False
            result = super().main(args, prog_name, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(EXIT_USAGE)
        except click.UsageError as error:
            _complain(f"{error.format_message().rstrip('.')}{_help_hint(error.ctx)}", error)
            sys.exit(EXIT_USAGE)
        except click.ClickException as error:
            _complain(error.format_message(), error)
            sys.exit(error.exit_code)
        except click.Abort as error:
            _complain("aborted", error)
            sys.exit(EXIT_FAILED)
        except Exception as error:
            _complain(_describe(error), error)
            sys.exit(EXIT_FAILED)
        sys.exit(result if isinstance(result, int) else 0)


def _describe(error: Exception) -> str:
    from runnel.client.errors import ClientError

    if isinstance(error, ClientError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return f"unexpected {type(error).__name__}: {error} (RUNNEL_DEBUG=1 shows where; please report it)"


def _complain(message: str, error: BaseException) -> None:
    """One line on stderr; with RUNNEL_DEBUG the traceback before it."""
    if os.environ.get("RUNNEL_DEBUG"):
        import traceback

        traceback.print_exception(error)
    click.echo(f"Error: {' '.join(message.split())}", err=True)


def _help_hint(ctx: click.Context | None) -> str:
    return f" (see `{ctx.command_path} --help`)" if ctx is not None else ""


def _silence_stdout() -> int:
    """The reader of our output left, as `head` does: say nothing, and end as `cat` would."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return EXIT_BROKEN_PIPE


@click.group(
    cls=VerbGroup,
    table=VERBS,
    title="Verbs",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every verb takes --help. Docs: docs/cli.md.",
)
@bootstrap_options
def cli() -> None:
    """Runnel: an event-streaming broker that Kafka clients already speak to."""


def main() -> NoReturn:
    """The console script."""
    cli.main(prog_name="runnel")
