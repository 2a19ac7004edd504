"""`runnel serve`: settings from flags, environment and a file, then the broker in the foreground.

Prints nothing to stdout: the one line `ready kafka=HOST:PORT` there is the broker's. Imports neither the
client nor rich: what a broker needs to start fast is all that is loaded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from runnel.cli.options import KeyValue

_EVERYWHERE = ("0.0.0.0", "::", "")


@click.command()
@click.option("--data-dir", metavar="DIR", help="Where the logs live.  [default: ./runnel-data]")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Where clients connect; port 0 picks one.  [default: 127.0.0.1:9092]",
)
@click.option("--advertise", metavar="HOST:PORT", help="What clients are told to dial.  [default: what they dialled]")
@click.option("--memory", is_flag=True, help="Keep everything in memory; nothing survives a stop.")
@click.option("--config", "config_path", type=click.Path(path_type=Path), metavar="FILE", help="Settings in YAML.")
@click.option("--set", "sets", multiple=True, type=KeyValue(), help="Any broker config; may be repeated.")
def serve(
    data_dir: str | None,
    listen: str | None,
    advertise: str | None,
    memory: bool,
    config_path: Path | None,
    sets: tuple[tuple[str, str], ...],
) -> int:
    """Start a broker, and run it until Ctrl-C or SIGTERM.

    Settings come from flags, then the environment (RUNNEL_NUM_PARTITIONS for num.partitions), then the file.

    \b
    runnel serve
    runnel serve --memory --listen 127.0.0.1:0
    runnel serve --listen 0.0.0.0:9092 --advertise broker.example:9092 --set num.partitions=12
    """
    from runnel.broker.app import address_text
    from runnel.broker.app import serve as serve_broker
    from runnel.broker.settings import SettingsInvalid, load_settings

    flags = dict(sets)
    for key, value in (("data-dir", data_dir), ("listen", listen), ("advertise", advertise)):
        if value is not None:
            flags[key] = value
    if memory:
        flags["memory"] = "true"
    try:
        settings = load_settings(flags, config_path, os.environ)
    except SettingsInvalid as error:
        raise click.UsageError(str(error)) from error
    place = "in memory: nothing is kept" if settings.data_dir is None else f"in {settings.data_dir}"
    return serve_broker(settings, on_ready=lambda host, port: _announce(address_text(_dial(host), port), place))


def _dial(host: str) -> str:
    return "127.0.0.1" if host in _EVERYWHERE else host


def _announce(address: str, place: str) -> None:
    """How to talk to it, for the person who started it; scripts read the `ready` line on stdout."""
    flag = "" if address == "127.0.0.1:9092" else f" -b {address}"
    heading = click.style(f"Runnel serves Kafka clients on {address}", bold=sys.stderr.isatty())
    lines = (
        f"{heading} (data {place})",
        f"  bootstrap.servers={address}",
        f"  echo hello | runnel produce greetings{flag}",
        f"  runnel consume greetings{flag}",
        "  Ctrl-C stops it.",
    )
    click.echo("\n".join(lines), err=True)
