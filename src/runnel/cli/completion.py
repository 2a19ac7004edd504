"""`runnel completion`: the script that a shell needs to complete verbs, options and topic names."""

from __future__ import annotations

import click

VARIABLE = "_RUNNEL_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print shell completion for bash, zsh or fish.

    \b
    bash:  runnel completion bash > ~/.local/share/bash-completion/completions/runnel
    zsh:   runnel completion zsh > "${fpath[1]}/_runnel"
    fish:  runnel completion fish > ~/.config/fish/completions/runnel.fish
    """
    from click.shell_completion import get_completion_class

    from runnel.cli.main import cli

    completer = get_completion_class(shell)
    if completer is None:
        raise click.ClickException(f"no completion for {shell}")
    click.echo(completer(cli, {}, "runnel", VARIABLE).source())
