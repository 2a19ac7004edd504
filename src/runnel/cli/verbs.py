"""Groups of verbs: a misspelt verb gets a suggestion, and the names that other tools use work too.

In: click commands, or where to find them. Out: a click group. Imports only click.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

ALIASES = {"ls": "list", "rm": "delete", "show": "describe", "get": "describe"}


class Verbs(click.Group):
    """A group whose verbs have aliases, which the help does not show."""

    aliases: Mapping[str, str] = ALIASES

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, self.aliases.get(cmd_name, ""))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"see `{ctx.command_path} --help`"
            raise click.UsageError(f"no such verb '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)


class LazyVerbs(Verbs):
    """Verbs by name, with where each lives ("module:command") and its line of help; loaded when it is called."""

    def __init__(self, *arguments: Any, table: Mapping[str, tuple[str, str]], title: str = "Commands", **options: Any):
        super().__init__(*arguments, **options)
        self.table = table
        self._title = title

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = cmd_name if cmd_name in self.table else self.aliases.get(cmd_name, "")
        if name not in self.table:
            return None
        module, _, attribute = self.table[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(self._title):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without loading a single verb: a shell waits for this."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=line) for name, (_, line) in self.table.items() if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]
