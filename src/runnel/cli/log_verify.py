"""`runnel log verify`: reads whole data directories, says what is wrong with them, and mends it when told to."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from runnel.cli.log_dump import Selection, selects
from runnel.cli.offline.checking import Advance, Known, PartitionReport, check_partition
from runnel.cli.offline.data_dir import METADATA_FOLDER, DataDirFacts, read_facts
from runnel.cli.offline.findings import LogFinding
from runnel.cli.offline.places import META_PROPERTIES, DataDir, PartitionDir, PathWrong, locate, segments
from runnel.cli.offline.repairing import Step, plan_repairs, run_repairs
from runnel.cli.options import TopicSelection, json_option, yes_option
from runnel.cli.outcomes import confirm
from runnel.cli.output import counted, human_bytes, note, print_json
from runnel.storage.errors import StorageError

EXIT_FAILED = 1
_MARKS = {"damage": ("DAMAGE", "red"), "warning": ("warn", "yellow"), "note": ("note", "blue")}


@dataclass(slots=True)
class Checked:
    """One path of the command line."""

    path: Path
    facts: DataDirFacts | None
    places: list[PartitionDir]
    reports: list[PartitionReport] = field(default_factory=list)

    @property
    def findings(self) -> list[LogFinding]:
        of_directory = self.facts.findings if self.facts else []
        return [*of_directory, *(finding for report in self.reports for finding in report.findings)]


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-t", "--topic", "topics", multiple=True, type=TopicSelection(), help="Only this; may be repeated.")
@click.option("-d", "--deep", is_flag=True, help="Open every record too (slower).")
@click.option("-v", "--verbose", is_flag=True, help="Also what is in order.")
@click.option("--repair", is_flag=True, help="Show how to mend it.")
@click.option("--dry-run", is_flag=True, help="Change nothing: the default.")
@click.option("--execute", is_flag=True, help="With --repair: do it. No broker may use the directory.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@yes_option
@json_option
def verify(
    paths: tuple[Path, ...],
    topics: tuple[Selection, ...],
    deep: bool,
    verbose: bool,
    repair: bool,
    dry_run: bool,
    execute: bool,
    quiet: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Check data directories or partitions' folders, of Runnel or Apache Kafka. Needs no broker, changes nothing.

    Exit code 0: no damage. 1: there is some.

    \b
    runnel log verify runnel-data
    runnel log verify runnel-data --repair             what would be done
    runnel log verify runnel-data --repair --execute   do it: damaged logs end at the damage, the rest is kept aside
    """
    if execute and (dry_run or not repair):
        raise click.UsageError("--execute goes with --repair, and not with --dry-run")
    try:
        checked = [_place(path, topics) for path in paths]
        started_s = time.monotonic()
        for each in checked:
            _check(each, deep=deep, show=not quiet)
        elapsed_s = time.monotonic() - started_s
        steps = [(each, step) for each in checked for step in plan_repairs(each.facts, each.reports)] if repair else []
        if not as_json:
            _print_findings(checked, verbose)
            click.echo(_summary(checked, elapsed_s))
            if repair:
                _print_steps([step for _, step in steps], execute)
        if execute and steps:
            confirm(f"Do {counted(len(steps), 'thing')} to mend this?", yes)
            _repair(checked, as_json)
    except (PathWrong, StorageError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json(_document(checked, [step for _, step in steps], elapsed_s, executed=execute))
    return EXIT_FAILED if _count(checked)["damage"] else 0


# Checking -------------------------------------------------------------------------------------------------


def _place(path: Path, topics: Sequence[Selection]) -> Checked:
    place = locate(path)
    if isinstance(place, Path):
        raise PathWrong(f"{path} is a file: name its folder, or the data directory; `runnel log dump` shows files")
    if isinstance(place, DataDir):
        wanted = [each for each in place.partitions if not topics or any(selects(one, each) for one in topics)]
        if topics and not wanted:
            raise PathWrong(f"{path} has no partition of {', '.join(topic for topic, _ in topics)}")
        return Checked(path, read_facts(path), wanted)
    parent = path.resolve().parent
    facts = read_facts(parent) if (parent / META_PROPERTIES).exists() else None
    if facts is not None:
        facts.findings.clear()  # what lies at the top was not asked for
    return Checked(path, facts, [place])


def _check(checked: Checked, *, deep: bool, show: bool) -> None:
    if checked.facts is not None and checked.facts.in_use:
        note(f"a broker is using {checked.facts.path}: what it writes meanwhile may look unfinished")
    sizes = {place: sum(path.stat().st_size for path in segments(place.path)) for place in checked.places}
    with _progress(f"checking {checked.path}", sum(sizes.values()), show) as advance:
        for place in checked.places:
            known = checked.facts.of(place) if checked.facts else Known()
            report = check_partition(place, known, deep=deep, advance=advance)
            report.findings += _check_owner(place, checked.facts)
            checked.reports.append(report)


def _check_owner(place: PartitionDir, facts: DataDirFacts | None) -> Iterator[LogFinding]:
    topics = facts.topics if facts else None
    if topics is not None and place.topic not in topics and place.path.name != METADATA_FOLDER:
        message = "the cluster's metadata knows no topic of this name"
        yield LogFinding("warning", place.path, message, "a broker sets the folder aside at its next start")


@contextmanager
def _progress(title: str, total_bytes: int, show: bool) -> Iterator[Advance]:
    """A bar on stderr, where a person is looking."""
    if not show or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total_bytes)
        yield lambda size_bytes: bar.advance(task, size_bytes)


def _repair(checked: Sequence[Checked], as_json: bool) -> None:
    """Mend, and check again what was mended."""
    logging.getLogger("runnel.storage").setLevel(logging.CRITICAL)  # it would repeat what was said already
    for each in checked:
        steps = plan_repairs(each.facts, each.reports)
        for step in run_repairs(each.facts, steps):
            if not as_json:
                click.echo(f"done: {step.text}")
        again = _place(each.path, [(place.topic, (place.partition,)) for place in each.places])
        _check(again, deep=False, show=False)
        each.facts, each.reports = again.facts, again.reports
    if not as_json:
        _print_findings(checked, verbose=False)
        left = _count(checked)["damage"]
        click.echo(f"checked again: {counted(left, 'damage') if left else 'no damage'}")


# Showing --------------------------------------------------------------------------------------------------


def _count(checked: Sequence[Checked]) -> Counter[str]:
    return Counter(finding.status for each in checked for finding in each.findings)


def _print_findings(checked: Sequence[Checked], verbose: bool) -> None:
    for each in checked:
        if verbose:
            for report in each.reports:
                click.echo(_report_line(report))
        for finding in each.findings:
            if finding.status != "note" or verbose:
                _print_finding(finding)


def _report_line(report: PartitionReport) -> str:
    offsets = f"offsets {report.start_offset} to {report.end_offset - 1}"
    return (
        f"{report.place}: {counted(report.segments, 'segment')}, {human_bytes(report.size_bytes)}, "
        f"{counted(report.batches, 'batch', 'batches')}, {offsets if report.batches else 'empty'}"
    )


def _print_finding(finding: LogFinding) -> None:
    mark, color = _MARKS[finding.status]
    padded = f"{mark:<6}"
    if sys.stdout.isatty():
        padded = click.style(padded, fg=color, bold=True)
    click.echo(f"{padded}  {finding.path}: {finding.message}")
    if finding.advice:
        click.echo(f"        -> {finding.advice}")


def _summary(checked: Sequence[Checked], elapsed_s: float) -> str:
    reports = [report for each in checked for report in each.reports]
    size = sum(report.size_bytes for report in reports)
    amount = (
        f"{counted(len(reports), 'partition')}, {counted(sum(report.segments for report in reports), 'segment')}, "
        f"{human_bytes(size)} in {elapsed_s:.1f} s"
    )
    counts = _count(checked)
    verdict = counted(counts["damage"], "damage") if counts["damage"] else "no damage"
    others = "".join(f", {counted(counts[status], status)}" for status in ("warning", "note") if counts[status])
    return f"checked {amount}: {verdict}{others}"


def _print_steps(steps: Sequence[Step], execute: bool) -> None:
    if not steps:
        note("there is nothing to mend")
    elif not execute:
        for step in steps:
            click.echo(f"would {step.text}")
        note("nothing was changed (add --execute to do it)")


def _document(checked: Sequence[Checked], steps: Sequence[Step], elapsed_s: float, *, executed: bool) -> dict[str, Any]:
    counts = _count(checked)
    return {
        "ok": not counts["damage"],
        "damages": counts["damage"],
        "warnings": counts["warning"],
        "elapsed_ms": round(elapsed_s * 1000),
        "partitions": [_report_document(report) for each in checked for report in each.reports],
        "findings": [_finding_document(finding) for each in checked for finding in each.findings],
        "repairs": [step.text for step in steps],
        "executed": executed,
    }


def _report_document(report: PartitionReport) -> dict[str, Any]:
    return {
        "topic": report.place.topic,
        "partition": report.place.partition,
        "path": str(report.place.path),
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "size_bytes": report.size_bytes,
        "start_offset": report.start_offset,
        "end_offset": report.end_offset,
    }


def _finding_document(finding: LogFinding) -> dict[str, Any]:
    return {
        "status": finding.status,
        "path": str(finding.path),
        "message": finding.message,
        "advice": finding.advice,
        "position": finding.position,
        "offset": finding.offset,
    }
