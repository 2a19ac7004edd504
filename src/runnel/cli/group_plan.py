"""What a reset of a group's offsets would do: which partitions, and where to.

In: what a command line asks for. Out: a plan for one group, or the reason why there is none: somebody is
still in the group, or there is nothing to set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, NamedTuple

import click

from runnel.cli.output import counted
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.groups import (
    Committed,
    GroupView,
    committed_offsets,
    describe_groups,
    group_subject,
    is_missing,
)
from runnel.client.metadata import TopicPartition
from runnel.client.resets import Given, PlannedOffset, Rule, plan_offsets

NAMED_CLIENTS_MAX = 3

Selection = tuple[str, tuple[int, ...] | None]
FileOffsets = Mapping[str | None, Mapping[TopicPartition, int]]


class GroupPlan(NamedTuple):
    group_id: str
    exists: bool
    rows: dict[TopicPartition, PlannedOffset]
    gone: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for."""

    topics: Sequence[Selection]
    rule: Rule | None
    file: FileOffsets | None = None
    new_topics: bool = True

    def rule_of(self, group_id: str) -> Rule:
        if self.rule is not None:
            return self.rule
        offsets = (self.file or {}).get(group_id) or (self.file or {}).get(None)
        if not offsets:
            raise ClientError(f"the file has no offset for {group_subject(group_id)}")
        return Given(offsets)


def read_offsets_file(file: IO[str]) -> FileOffsets:
    """Lines of [group] topic partition offset, with commas or spaces: kafka-consumer-groups' and rpk's form."""
    offsets: dict[str | None, dict[TopicPartition, int]] = {}
    for number, line in enumerate(file, 1):
        cells = [cell.strip().strip('"') for cell in (line.split(",") if "," in line else line.split())]
        if not any(cells) or cells[0].startswith("#"):
            continue
        try:
            *group, topic, partition, offset = cells
            if len(group) > 1 or int(offset) < 0:
                raise ValueError(line)
            offsets.setdefault(group[0] if group else None, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise click.UsageError(
                f"{file.name}, line {number}: '{line.strip()}' is not TOPIC,PARTITION,OFFSET"
            ) from None
    if not offsets:
        raise click.UsageError(f"{file.name} holds no offsets: write lines of TOPIC,PARTITION,OFFSET")
    return offsets


async def plan_group(cluster: Cluster, group_id: str, wish: Wish) -> GroupPlan:
    (view,) = (await describe_groups(cluster, [group_id])).values()
    if isinstance(view, ClientError) and not is_missing(view):
        raise view
    if isinstance(view, GroupView) and not view.is_idle:
        raise _busy(view)
    committed = await committed_offsets(cluster, group_id)
    rule = wish.rule_of(group_id)
    targets, gone = await _targets(cluster, group_id, wish, rule, committed)
    rows = await plan_offsets(cluster, targets, committed, rule)
    return GroupPlan(group_id, isinstance(view, GroupView), rows, gone)


def _busy(view: GroupView) -> ClientError:
    clients = list(dict.fromkeys(member.client_id or member.member_id for member in view.members))
    names = ", ".join(clients[:NAMED_CLIENTS_MAX]) + (" and more" if len(clients) > NAMED_CLIENTS_MAX else "")
    who = f" with {counted(len(view.members), 'member')} ({names})" if clients else ""
    return ClientError(
        f"{group_subject(view.group_id)} is {view.state}{who}: its offsets can only be set while nobody is in it; stop "
        f"its consumers, then try again (`runnel group describe {view.group_id} --members` shows them)"
    )


async def _targets(
    cluster: Cluster, group_id: str, wish: Wish, rule: Rule, committed: Mapping[TopicPartition, Committed]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """The partitions to plan for; and those that the group has committed but which are gone."""
    base = set(rule.offsets) if isinstance(rule, Given) else set(committed)
    if wish.topics:
        chosen = await _selected(cluster, wish.topics)
        chosen = [target for target in chosen if target in base] if isinstance(rule, Given) else chosen
    else:
        chosen = sorted(base)
    if not wish.new_topics:
        _check_known(group_id, chosen, committed)
    if not chosen:
        raise ClientError(
            f"{group_subject(group_id)} has committed nothing, so there is nothing to set; name topics with --topic(s) "
            "(`runnel group list` shows groups)"
        )
    view = await cluster.refresh({target.topic for target in chosen})
    there = {
        TopicPartition(topic.name, partition.index) for topic in view.topics.values() for partition in topic.partitions
    }
    gone = [target for target in chosen if target not in there]
    if gone and (wish.topics or isinstance(rule, Given) or len(gone) == len(chosen)):
        raise ClientError(f"partition {gone[0]} does not exist; `runnel topic list` shows what does")
    return [target for target in chosen if target in there], gone


async def _selected(cluster: Cluster, topics: Sequence[Selection]) -> list[TopicPartition]:
    chosen: list[TopicPartition] = []
    for topic, partitions in topics:
        view = await cluster.topic(topic)
        indexes = partitions or [partition.index for partition in view.partitions]
        chosen += [TopicPartition(topic, index) for index in indexes]
    return list(dict.fromkeys(chosen))


def _check_known(
    group_id: str, chosen: Sequence[TopicPartition], committed: Mapping[TopicPartition, Committed]
) -> None:
    known = {target.topic for target in committed}
    new = sorted({target.topic for target in chosen} - known)
    if new:
        raise ClientError(
            f"{group_subject(group_id)} has committed nothing of {', '.join(new)}; --allow-new-topics allows it"
        )
