"""`runnel cluster info|health`: what the cluster is made of, and whether it is well."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from typing import Any

import click

from runnel.cli.findings import Finding, show_finding
from runnel.cli.health import examine
from runnel.cli.options import bootstrap_options, json_option
from runnel.cli.output import counted, human_bytes, json_line, print_json, print_table
from runnel.cli.session import open_cluster, run, run_guarded
from runnel.cli.verbs import Verbs
from runnel.client.brokers import BrokerState, LogDir, Quorum, broker_states, features, log_dirs, quorum
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.metadata import ClusterView

EXIT_FAILED = 1
WATCH_EVERY_S = 2.0


@click.group(cls=Verbs, short_help="Brokers, features and health of the cluster.")
@bootstrap_options
def cluster() -> None:
    """The cluster: what it is made of, and whether it is well."""


# Info -----------------------------------------------------------------------------------------------------


@cluster.command()
@json_option
@bootstrap_options
def info(as_json: bool) -> None:
    """Brokers, controllers, features, and how much there is of everything."""
    document = run(_gather)
    if as_json:
        print_json(document)
        return
    shape = ", ".join(
        (
            counted(len(document["brokers"]), "broker"),
            counted(document["topics"], "topic"),
            counted(document["partitions"], "partition"),
        )
    )
    click.echo(f"cluster {document['cluster_id']}: {shape}, controller {document['controller']}")
    print_table(
        ["broker", "address", "rack", "state", "leads", "replicas", "size", "free"],
        [_broker_row(row, document["controller"]) for row in document["brokers"]],
    )
    if document["quorum"]:
        found = document["quorum"]
        voters = ", ".join(str(voter["id"]) for voter in found["voters"])
        click.echo(
            f"quorum: leader {found['leader']}, epoch {found['epoch']}, voters {voters}, at {found['high_watermark']}"
        )
    if document["features"]:
        click.echo("features: " + ", ".join(f"{name} {level}" for name, level in sorted(document["features"].items())))


def _broker_row(row: dict[str, Any], controller: int) -> tuple[object, ...]:
    state = "fenced" if row["fenced"] else "controller" if row["id"] == controller else "ok"
    size, free = row["size_bytes"], row["disk_free_bytes"]
    return (
        row["id"],
        f"{row['host']}:{row['port']}",
        row["rack"] or "-",
        state,
        row["leads"],
        row["replicas"],
        "-" if size is None else human_bytes(size),
        "-" if free is None else human_bytes(free),
    )


async def _gather(cluster: Cluster) -> dict[str, Any]:
    view = await cluster.refresh(None)
    states = await broker_states(cluster)
    try:
        controllers = await quorum(cluster)
    except ClientError:  # not allowed, or in between two leaders: the rest is worth showing
        controllers = None
    leads = Counter(part.leader_id for topic in view.topics.values() for part in topic.partitions)
    replicas = Counter(node for topic in view.topics.values() for part in topic.partitions for node in part.replicas)
    brokers = [
        _broker_document(state, leads[state.node_id], replicas[state.node_id], await _dirs(cluster, state))
        for state in states
    ]
    return {
        "cluster_id": view.cluster_id,
        "controller": controllers.leader_id if controllers else view.controller_id,
        "topics": len(view.topics),
        "partitions": _partition_count(view),
        "brokers": brokers,
        "quorum": _quorum_document(controllers) if controllers else None,
        "features": await features(cluster),
    }


async def _dirs(cluster: Cluster, state: BrokerState) -> list[LogDir]:
    """Nothing where the broker cannot or may not tell."""
    try:
        return [] if state.fenced else await log_dirs(cluster, state.node_id)
    except ClientError:
        return []


def _partition_count(view: ClusterView) -> int:
    return sum(len(topic.partitions) for topic in view.topics.values())


def _broker_document(state: BrokerState, leads: int, replicas: int, dirs: list[LogDir]) -> dict[str, Any]:
    disks = {(each.total_bytes, each.free_bytes) for each in dirs if each.total_bytes > 0}
    return {
        "id": state.node_id,
        "host": state.address.host,
        "port": state.address.port,
        "rack": state.rack,
        "fenced": state.fenced,
        "leads": leads,
        "replicas": replicas,
        "size_bytes": sum(each.used_bytes for each in dirs) if dirs else None,
        "disk_total_bytes": sum(total for total, _ in disks) if disks else None,
        "disk_free_bytes": sum(free for _, free in disks) if disks else None,
    }


def _quorum_document(found: Quorum) -> dict[str, Any]:
    def rows(replicas: Any) -> list[dict[str, Any]]:
        return [
            {"id": each.node_id, "log_end_offset": each.log_end_offset, "last_caught_up_ms": each.last_caught_up_ms}
            for each in replicas
        ]

    return {
        "leader": found.leader_id,
        "epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "voters": rows(found.voters),
        "observers": rows(found.observers),
    }


# Health ---------------------------------------------------------------------------------------------------


@cluster.command()
@click.option("-w", "--watch", is_flag=True, help="Go on looking, and tell when something changes.")
@click.option("-e", "--exit-when-healthy", is_flag=True, help="Wait until all is well, then end.")
@click.option("--every", metavar="SECONDS", type=click.FloatRange(min=0.1), default=WATCH_EVERY_S, show_default=True,
              help="How often, with -w or -e.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Warnings count as failures.")
@json_option
@bootstrap_options
def health(watch: bool, exit_when_healthy: bool, every: float, strict: bool, as_json: bool) -> int:
    """What is wrong with the cluster, and what to do. Exit code 0: all is well. 1: something is not."""

    def judge(findings: list[Finding]) -> int:
        bad = ("failure", "warning") if strict else ("failure",)
        return EXIT_FAILED if any(finding.status in bad for finding in findings) else 0

    if not watch and not exit_when_healthy:
        findings = asyncio.run(_collect(open_cluster()))
        _show(findings, as_json=as_json, lines=False)
        return judge(findings)

    async def work() -> int:
        shown: list[Finding] = []
        while True:
            findings = await _collect(open_cluster())
            if _standing(findings) != _standing(shown):
                _show(findings, as_json=as_json, lines=True)
            shown = findings
            if exit_when_healthy and judge(findings) == 0:
                return 0
            await asyncio.sleep(every)

    return run_guarded(work)


async def _collect(unopened: Cluster) -> list[Finding]:
    """A cluster that cannot be reached at all is a finding too."""
    findings: list[Finding] = []
    try:
        async with unopened as cluster:
            async for finding in examine(cluster):
                findings.append(finding)
    except ClientError as error:
        subject = ", ".join(map(str, unopened.bootstrap))
        findings.append(Finding("failure", "brokers", subject, error.message, "`runnel doctor` looks closer"))
    return findings


def _standing(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """What makes a change worth telling: not every byte that a disk gets fuller."""
    return [(finding.status, finding.check, finding.subject) for finding in findings]


def _show(findings: list[Finding], *, as_json: bool, lines: bool) -> None:
    counts = Counter(finding.status for finding in findings)
    if as_json:
        document = {
            "healthy": not counts["failure"],
            "failures": counts["failure"],
            "warnings": counts["warning"],
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json_line(document)) if lines else print_json(document)
        return
    for finding in findings:
        show_finding(finding)
    warnings = f" ({counted(counts['warning'], 'warning')})" if counts["warning"] else ""
    click.echo(
        f"not healthy: {counted(counts['failure'], 'problem')}{warnings}" if counts["failure"] else f"healthy{warnings}"
    )
