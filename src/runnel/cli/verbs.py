"""Groups of verbs: a misspelt verb gets a suggestion, and the names that other tools use work too.

In: click commands. Out: a click group. Imports only click.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import click

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
