"""The checks behind `runnel cluster health`: brokers, controllers, partitions, disks.

In: a `Cluster`. Out: `Finding`s in plain words with what to do. `doctor` asks whether a client can work
with the brokers; this asks whether the brokers themselves are well.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence

from runnel.cli.findings import Finding, check_partitions, some
from runnel.cli.output import counted, human_bytes
from runnel.client.brokers import UNKNOWN, BrokerState, LogDir, broker_states, log_dirs, quorum, reassignments
from runnel.client.cluster import Cluster
from runnel.client.configs import describe_configs, topic_resource
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition, TopicView

FREE_SHARE_WARN = 0.10
FREE_SHARE_FAIL = 0.02
CAUGHT_UP_MS_MAX = 30_000


async def examine(cluster: Cluster) -> AsyncIterator[Finding]:
    """Everything that the cluster tells about itself, what matters most first."""
    states = await broker_states(cluster)
    down: set[int] = set()
    for state in states:
        finding = await _check_broker(cluster, state)
        if finding.status == "failure":
            down.add(state.node_id)
        yield finding
    yield await _check_controllers(cluster)
    view = await cluster.refresh(None)
    for finding in check_partitions(view.topics.values()):
        yield finding
    async for finding in _check_min_isr(cluster, view.topics.values()):
        yield finding
    for state in states:
        if state.node_id not in down:
            async for finding in _check_disks(cluster, state.node_id):
                yield finding
    moving = await reassignments(cluster)
    if moving:
        yield Finding("ok", "moves", some(list(map(str, moving))), "replicas are being moved")


async def _check_broker(cluster: Cluster, state: BrokerState) -> Finding:
    subject = f"broker {state.node_id} at {state.address}"
    if state.fenced:
        advice = "it does not heartbeat to the controller: is it running, and can it reach the controller?"
        return Finding("failure", "brokers", subject, "fenced: leads no partition and serves nobody", advice)
    try:
        await cluster.connect(state.node_id)
    except ClientError as error:
        return Finding("failure", "brokers", subject, error.message, "`runnel doctor` looks closer at addresses")
    return Finding("ok", "brokers", subject, "answers")


async def _check_controllers(cluster: Cluster) -> Finding:
    try:
        found = await quorum(cluster)
    except ClientError as error:
        return Finding("failure", "controller", "the quorum", error.message, "see the controllers' logs")
    if found is None:
        known = cluster.view.controller_id in cluster.view.brokers
        if known:
            return Finding("ok", "controller", f"broker {cluster.view.controller_id}", "is the controller")
        message = "there is none: topics cannot be created or changed now"
        return Finding("failure", "controller", "the cluster", message, "see the brokers' logs")
    now_ms = time.time() * 1000
    behind = [
        str(voter.node_id)
        for voter in found.voters
        if voter.node_id != found.leader_id and now_ms - voter.last_caught_up_ms > CAUGHT_UP_MS_MAX
    ]
    if behind:
        message = (
            f"{counted(len(behind), 'voter')} of {len(found.voters)} not caught up for {CAUGHT_UP_MS_MAX // 1000} s"
        )
        return Finding("warning", "controller", some(behind), message, "see whether these controllers run")
    voters = counted(len(found.voters), "voter")
    return Finding("ok", "controller", f"node {found.leader_id}", f"leads a quorum of {voters}")


async def _check_min_isr(cluster: Cluster, topics: Iterable[TopicView]) -> AsyncIterator[Finding]:
    """Only topics with a replica missing can be below min.insync.replicas... or ask for more than they have."""
    suspects = [topic for topic in topics if any(part.is_under_replicated for part in topic.partitions)]
    if not suspects:
        return
    found = await describe_configs(cluster, [topic_resource(topic.name) for topic in suspects], ["min.insync.replicas"])
    minima = {
        resource.name: int(entries[0].value or 1)
        for resource, entries in found.items()
        if not isinstance(entries, ClientError) and entries
    }
    below = [
        str(TopicPartition(topic.name, part.index))
        for topic in suspects
        for part in topic.partitions
        if len(part.isr) < minima.get(topic.name, 1)
    ]
    if below:
        message = "fewer replicas in sync than min.insync.replicas: writes with acks=all are refused"
        yield Finding("failure", "partitions", some(below), message, "bring back the brokers that hold the others")


async def _check_disks(cluster: Cluster, node_id: int) -> AsyncIterator[Finding]:
    try:
        directories = await log_dirs(cluster, node_id)
    except ClientError as error:
        yield Finding("warning", "disks", f"broker {node_id}", error.message)
        return
    for directory in directories:
        yield _disk_finding(node_id, directory, directories)


def _disk_finding(node_id: int, directory: LogDir, directories: Sequence[LogDir]) -> Finding:
    subject = f"broker {node_id}, {directory.path}"
    if directory.error is not None:
        advice = "its partitions are offline: see the broker's log and the disk"
        return Finding("failure", "disks", subject, directory.error.message, advice)
    used = f"{counted(len(directory.sizes), 'partition')}, {human_bytes(directory.used_bytes)}"
    if directory.total_bytes in (UNKNOWN, 0):
        return Finding("ok", "disks", subject, used)
    free = f"{human_bytes(directory.free_bytes)} of {human_bytes(directory.total_bytes)} free"
    share = directory.free_bytes / directory.total_bytes
    advice = "delete topics, lower retention (`runnel config set --topic T retention.ms=...`), or add a disk"
    if share < FREE_SHARE_FAIL:
        return Finding("failure", "disks", subject, f"almost full: {free}; {used}", advice)
    if share < FREE_SHARE_WARN:
        return Finding("warning", "disks", subject, f"filling up: {free}; {used}", advice)
    return Finding("ok", "disks", subject, f"{used}; {free}")
