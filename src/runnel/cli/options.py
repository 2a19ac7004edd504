"""Options that several verbs share, and the kinds of argument that are more than text.

In: words of a command line. Out: checked values; a wrong one is a usage error (exit code 2). Imports
nothing heavy: the client's parsers are loaded when such an option is really used.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from runnel.client.offsets import Position

BOOTSTRAP_VARIABLE = "RUNNEL_BOOTSTRAP"
BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
TIMEOUT_DEFAULT_S = 10.0
_BOOTSTRAP_KEY = "runnel.bootstrap"
_TIMEOUT_KEY = "runnel.timeout_s"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _remember(key: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """The same option may stand at every level of the command; the innermost one given wins."""

    def callback(ctx: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is not None:
            ctx.meta[key] = value
        return value

    return callback


def bootstrap_options(function: Decorated) -> Decorated:
    """`-b/--bootstrap-server` and `--timeout`, usable before or after any verb."""
    decorate = click.option(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT[,...]",
        expose_value=False,
        callback=_remember(_BOOTSTRAP_KEY),
        help=f"Brokers to ask first.  [env: {BOOTSTRAP_VARIABLE}; default: {BOOTSTRAP_DEFAULT}]",
    )
    limit = click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        expose_value=False,
        callback=_remember(_TIMEOUT_KEY),
        help=f"How long a request may take, retries included.  [default: {TIMEOUT_DEFAULT_S:g}]",
    )
    return decorate(limit(function))


def json_option(function: Decorated) -> Decorated:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (field names: docs/cli.md).")(function)


def yes_option(function: Decorated) -> Decorated:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked.")(function)


def chosen_bootstrap(ctx: click.Context | None = None) -> str:
    import os

    from runnel.client.address import parse_addresses
    from runnel.client.errors import ClientError

    ctx = ctx or click.get_current_context()
    chosen: str = ctx.meta.get(_BOOTSTRAP_KEY) or os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP_DEFAULT
    try:
        parse_addresses(chosen)
    except ClientError as error:
        raise click.UsageError(error.message, ctx) from error
    return chosen


def chosen_timeout_s() -> float:
    timeout_s: float = click.get_current_context().meta.get(_TIMEOUT_KEY, TIMEOUT_DEFAULT_S)
    return timeout_s


# click.ParamType became generic in 8.5; at run time an older click does as well.
class KeyValue(click.ParamType):  # type: ignore[type-arg]
    """`key=value`, as config entries are given."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, separator, text = str(value).partition("=")
        if not key.strip() or not separator:
            self.fail(f"'{value}' is not of the form KEY=VALUE", param, ctx)
        return key.strip(), text


class _Parsed(click.ParamType, ABC):  # type: ignore[type-arg]
    """A word that the client knows how to read; what it says of a wrong one is a usage error."""

    @abstractmethod
    def parse(self, text: str) -> Any: ...

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from runnel.client.errors import ClientError

        try:
            return value if not isinstance(value, str) else self.parse(value)
        except ClientError as error:
            self.fail(error.message, param, ctx)


class PositionType(_Parsed):
    """A place in a log: start, end, an offset, -N, or @TIME."""

    name = "POSITION"

    def parse(self, text: str) -> Position:
        from runnel.client.offsets import parse_position

        return parse_position(text)


class TimestampType(_Parsed):
    """Milliseconds since 1970, or an ISO date and time."""

    name = "TIME"

    def parse(self, text: str) -> int:
        from runnel.client.offsets import parse_timestamp_ms

        return parse_timestamp_ms(text.removeprefix("@"))


class DurationType(_Parsed):
    """`90m`, `7d`, or ISO 8601 as `PT1H30M`; in milliseconds."""

    name = "DURATION"

    def parse(self, text: str) -> int:
        from runnel.client.offsets import parse_duration_ms

        return parse_duration_ms(text)


class PartitionList(click.ParamType):  # type: ignore[type-arg]
    """`3`, `0,2` or `0-4`."""

    name = "PARTITIONS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        chosen: dict[int, None] = {}
        try:
            for piece in str(value).split(","):
                low, dash, high = piece.partition("-")
                for index in range(int(low), (int(high) if dash else int(low)) + 1):
                    chosen[index] = None
        except ValueError:
            chosen = {}
        if not chosen:
            self.fail(f"'{value}' does not name partitions: write 3, or 0,2, or 0-4", param, ctx)
        return tuple(chosen)


class _Named(click.ParamType):  # type: ignore[type-arg]
    """A thing of the cluster by its name; the shell can complete it from there."""

    kind = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text:
            self.fail(f"a {self.kind} needs a name", param, ctx)
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from runnel.cli.session import names_quickly

        try:
            names = names_quickly(self.kind, chosen_bootstrap(ctx))
        except click.UsageError:  # an address that makes no sense: nothing to complete
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class TopicName(_Named):
    name = "TOPIC"
    kind = "topic"


class GroupName(_Named):
    name = "GROUP"
    kind = "group"


class BrokerId(_Named):
    name = "BROKER"
    kind = "broker"


def group_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """`GROUP...` as the argument `groups`; `--group NAME`, as kafka-consumer-groups has it, means the same."""

    @functools.wraps(function)
    def merged(*arguments: Any, groups: tuple[str, ...], named: tuple[str, ...], **options: Any) -> Any:
        return function(*arguments, groups=(*groups, *named), **options)

    option = click.option("--group", "named", multiple=True, hidden=True, type=GroupName())
    return click.argument("groups", metavar="GROUP...", nargs=-1, type=GroupName())(option(merged))


class TopicSelection(TopicName):
    """`orders`, or `orders:0,2-4` for some of its partitions (None: all)."""

    name = "TOPIC[:PARTITIONS]"

    def convert(  # type: ignore[override]
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...] | None]:
        if isinstance(value, tuple):
            return value
        topic, colon, partitions = str(value).partition(":")
        chosen = PartitionList().convert(partitions, param, ctx) if colon else None
        return super().convert(topic, param, ctx), chosen
