"""What a check found, in plain words with what to do, and how that looks; used by `doctor` and `cluster health`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import click

from runnel.cli.output import counted
from runnel.client.metadata import TopicPartition, TopicView

NAMES_SHOWN_MAX = 5
_MARKS = {"ok": ("ok  ", "green"), "warning": ("warn", "yellow"), "failure": ("FAIL", "red")}

Status = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Finding:
    status: Status
    check: str
    subject: str
    message: str
    advice: str | None = None


def show_finding(finding: Finding) -> None:
    mark, color = _MARKS[finding.status]
    if sys.stdout.isatty():
        mark = click.style(mark, fg=color, bold=True)
    subject = "" if finding.message.startswith(f"cannot connect to {finding.subject}") else f"{finding.subject}: "
    click.echo(f"{mark}  {finding.check:<10}  {subject}{finding.message}")
    if finding.advice:
        click.echo(f"      {'':<10}  -> {finding.advice}")


def some(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def check_partitions(topics: Iterable[TopicView]) -> Iterable[Finding]:
    offline: list[str] = []
    behind: list[str] = []
    total = 0
    for topic in topics:
        for partition in topic.partitions:
            total += 1
            name = str(TopicPartition(topic.name, partition.index))
            if partition.is_offline:
                offline.append(name)
            elif partition.is_under_replicated:
                behind.append(name)
    if offline:
        advice = "bring back the brokers that hold them, or see the brokers' logs for disk errors"
        yield Finding("failure", "partitions", some(offline), "no leader: cannot be written or read", advice)
    if behind:
        message = "fewer replicas are in sync than there should be"
        yield Finding("warning", "partitions", some(behind), message, "see whether a broker is down or slow")
    if not offline and not behind:
        yield Finding("ok", "partitions", counted(total, "partition"), "all online and in sync")
