"""Consumer groups, classic and of the next generation (KIP-848): who is in them, and the offsets they keep.

In: a `Cluster` and group ids. Out: plain values. Everything about one group is asked of its coordinator,
which is looked up, and looked up again when it has moved. Commits from here are an operator's: they carry no
member, so a coordinator takes them only while the group has none.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from runnel.client.admin import Outcome
from runnel.client.cluster import Cluster, Patience
from runnel.client.consumer_protocol import decode_assignment
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import by_topic
from runnel.client.settling import settle
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

CLASSIC = "classic"
CONSUMER = "consumer"
EMPTY = "Empty"
DEAD = "Dead"
GROUP_KEY_TYPE = 0
NO_GENERATION = -1
NO_OFFSET = -1
# From version 10 on, topics go by id; by name a group may keep offsets of topics that are gone.
BY_NAME_VERSION_MAX = 9
MEMBER_TYPES = {0: CLASSIC, 1: CONSUMER}

Result = TypeVar("Result")


class ListedGroup(NamedTuple):
    group_id: str
    type: str
    protocol_type: str
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`epoch`, `target` and `subscribed_regex` are the next generation's; None in a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    rack: str | None = None
    type: str | None = None
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    subscribed_regex: str | None = None


@dataclass(frozen=True, slots=True)
class GroupView:
    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None

    @property
    def is_idle(self) -> bool:
        """No member lives, so an operator may commit and delete."""
        return self.state in (EMPTY, DEAD)

    @property
    def owners(self) -> dict[TopicPartition, GroupMember]:
        return {target: member for member in self.members for target in member.assignment}


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


def group_subject(group_id: str) -> str:
    return f"group '{group_id}'"


def is_missing(error: object) -> bool:
    return isinstance(error, ClientError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND


# Listing and describing -----------------------------------------------------------------------------------


async def list_groups(cluster: Cluster) -> list[ListedGroup]:
    """Every group of the cluster; each broker knows those that it coordinates."""
    found: list[ListedGroup] = []
    for node_id in cluster.view.brokers:
        reply = await _retried(cluster, lambda node_id=node_id: _list_of(cluster, node_id))  # type: ignore[misc]
        found += [
            ListedGroup(row.group_id, (row.group_type or CLASSIC).lower(), row.protocol_type, row.group_state, node_id)
            for row in reply.groups
        ]
    return sorted(found)


async def _list_of(cluster: Cluster, node_id: int) -> Struct:
    reply = await cluster.call(ApiKey.LIST_GROUPS, {"states_filter": [], "types_filter": []}, node_id=node_id)
    if reply.error_code:
        raise refused(reply.error_code, f"the groups of broker {node_id}")
    return reply


async def _retried(cluster: Cluster, ask: Callable[[], Awaitable[Result]]) -> Result:
    patience = Patience(cluster.timeout_s)
    while True:
        try:
            return await ask()
        except ClientError as error:
            await patience.wait_or_raise(error)


async def describe_groups(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, GroupView | ClientError]:
    """Each group, or why it cannot be told."""
    wanted = list(dict.fromkeys(group_ids))
    return dict(zip(wanted, await asyncio.gather(*(_describe(cluster, each) for each in wanted)), strict=True))


async def _describe(cluster: Cluster, group_id: str) -> GroupView | ClientError:
    async def ask(node_id: int) -> GroupView:
        if ApiKey.CONSUMER_GROUP_DESCRIBE in (await cluster.connect(node_id)).ranges:
            try:
                return await _describe_consumer(cluster, group_id, node_id)
            except ClientError as error:
                # What the next generation does not know may be a classic group; or it is switched off here.
                if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                    raise
        return await _describe_classic(cluster, group_id, node_id)

    try:
        return await _at_coordinator(cluster, group_id, ask)
    except ClientError as error:
        return await _of_another_type(cluster, group_id) or error if is_missing(error) else error


async def _of_another_type(cluster: Cluster, group_id: str) -> ClientError | None:
    """Share and streams groups are listed, but asked for in other ways: they must not be called missing."""
    if ApiKey.LIST_GROUPS not in (await cluster.connect()).ranges:
        return None
    for listed in await list_groups(cluster):
        if listed.group_id == group_id and listed.type not in (CLASSIC, CONSUMER):
            return ClientError(
                f"{group_subject(group_id)} is a {listed.type} group: its members and offsets are shown by Kafka's own "
                f"kafka-{listed.type}-groups.sh only"
            )
    return None


async def _describe_consumer(cluster: Cluster, group_id: str, node_id: int) -> GroupView:
    body = {"group_ids": [group_id], "include_authorized_operations": False}
    (row,) = (await cluster.call(ApiKey.CONSUMER_GROUP_DESCRIBE, body, node_id=node_id)).groups
    if row.error_code:
        raise refused(row.error_code, group_subject(group_id), row.error_message)
    members = tuple(map(_consumer_member, row.members))
    return GroupView(
        group_id,
        CONSUMER,
        row.group_state,
        CONSUMER,
        row.assignor_name,
        node_id,
        members,
        row.group_epoch,
        row.assignment_epoch,
    )


def _consumer_member(row: Struct) -> GroupMember:
    return GroupMember(
        row.member_id,
        row.instance_id,
        row.client_id,
        row.client_host,
        _partitions(row.assignment),
        row.rack_id,
        MEMBER_TYPES.get(row.member_type),
        row.member_epoch,
        _partitions(row.target_assignment),
        row.subscribed_topic_regex or None,
    )


def _partitions(assignment: Struct) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


async def _describe_classic(cluster: Cluster, group_id: str, node_id: int) -> GroupView:
    body = {"groups": [group_id], "include_authorized_operations": False}
    (row,) = (await cluster.call(ApiKey.DESCRIBE_GROUPS, body, node_id=node_id)).groups
    # Before version 6 a group that is not there was described as dead.
    code = row.error_code or (ErrorCode.GROUP_ID_NOT_FOUND if row.group_state == DEAD else 0)
    if code:
        raise refused(code, group_subject(group_id), row.error_message)
    members = tuple(_classic_member(member, row.protocol_type) for member in row.members)
    return GroupView(group_id, CLASSIC, row.group_state, row.protocol_type, row.protocol_data, node_id, members)


def _classic_member(row: Struct, protocol_type: str) -> GroupMember:
    assigned = decode_assignment(row.member_assignment) if protocol_type == CONSUMER else None
    return GroupMember(row.member_id, row.group_instance_id, row.client_id, row.client_host, assigned or ())


# Offsets --------------------------------------------------------------------------------------------------


async def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, Committed]:
    """Every offset that the group keeps; nothing for a group that does not exist."""

    async def ask(node_id: int) -> dict[TopicPartition, Committed]:
        one: dict[str, Any] = {"group_id": group_id, "topics": None}
        body = {**one, "groups": [{**one, "member_id": None, "member_epoch": -1}], "require_stable": False}
        reply = await cluster.call(ApiKey.OFFSET_FETCH, body, node_id=node_id, version_max=BY_NAME_VERSION_MAX)
        row = reply.groups[0] if reply.groups else reply
        if row.error_code:
            raise refused(row.error_code, group_subject(group_id))
        return {
            TopicPartition(topic.name, part.partition_index): _committed(part)
            for topic in row.topics
            for part in topic.partitions
            if part.error_code == 0 and part.committed_offset != NO_OFFSET
        }

    return await _at_coordinator(cluster, group_id, ask)


def _committed(row: Struct) -> Committed:
    return Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")


async def commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ClientError | None]:
    """Set the offsets of a group without members; per partition, what went wrong."""
    topics = by_topic(
        {
            target: {
                "partition_index": target.partition,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for target, offset in offsets.items()
        }
    )
    body = {
        "group_id": group_id,
        "generation_id_or_member_epoch": NO_GENERATION,
        "member_id": "",
        "group_instance_id": None,
        "topics": topics,
    }
    return await _change_offsets(cluster, group_id, ApiKey.OFFSET_COMMIT, body)


async def delete_offsets(
    cluster: Cluster, group_id: str, targets: Iterable[TopicPartition]
) -> dict[TopicPartition, ClientError | None]:
    """Forget the offsets of some partitions, which the group must not be subscribed to."""
    topics = by_topic({target: {"partition_index": target.partition} for target in targets})
    return await _change_offsets(cluster, group_id, ApiKey.OFFSET_DELETE, {"group_id": group_id, "topics": topics})


async def _change_offsets(
    cluster: Cluster, group_id: str, api_key: ApiKey, body: Mapping[str, Any]
) -> dict[TopicPartition, ClientError | None]:
    subject = group_subject(group_id)

    async def ask(node_id: int) -> dict[TopicPartition, ClientError | None]:
        reply = await cluster.call(api_key, body, node_id=node_id, version_max=BY_NAME_VERSION_MAX)
        whole = getattr(reply, "error_code", 0)
        rows = {
            TopicPartition(topic.name, part.partition_index): part.error_code
            for topic in reply.topics
            for part in topic.partitions
        }
        errors = {target: _offset_error(code, group_id, target) for target, code in rows.items()}
        for error in (refused(whole, subject) if whole else None, *errors.values()):
            if error is not None and (whole or error.code in _MOVED):
                raise error
        return errors

    return await _at_coordinator(cluster, group_id, ask)


_MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


def _offset_error(code: int, group_id: str, target: TopicPartition) -> ClientError | None:
    if not code:
        return None
    about_topic = code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    subject = f"partition {target}" if about_topic else f"{group_subject(group_id)}, partition {target}"
    return refused(code, subject)


# Deleting -------------------------------------------------------------------------------------------------


async def delete_groups(cluster: Cluster, group_ids: Sequence[str]) -> list[Outcome]:
    """Remove groups that have no members, with their offsets."""

    async def send(wanted: Sequence[str]) -> list[tuple[str, Struct]]:
        nodes: defaultdict[int, list[str]] = defaultdict(list)
        for group_id in wanted:
            nodes[await _coordinator(cluster, group_id)].append(group_id)
        rows: list[tuple[str, Struct]] = []
        for node_id, names in nodes.items():
            reply = await cluster.call(ApiKey.DELETE_GROUPS, {"groups_names": names}, node_id=node_id)
            rows += [(row.group_id, row) for row in reply.results]
        return rows

    settled = await settle(cluster, group_ids, send, group_subject)
    return [Outcome(group_id, error) for group_id, (_, error) in settled.items()]


# Coordinators ---------------------------------------------------------------------------------------------


async def _at_coordinator(cluster: Cluster, group_id: str, ask: Callable[[int], Awaitable[Result]]) -> Result:
    """Ask the group's coordinator, and the next one if it has moved, until the cluster's timeout."""

    async def find_and_ask() -> Result:
        return await ask(await _coordinator(cluster, group_id))

    return await _retried(cluster, find_and_ask)


async def _coordinator(cluster: Cluster, group_id: str) -> int:
    body = {"key": group_id, "key_type": GROUP_KEY_TYPE, "coordinator_keys": [group_id]}
    reply = await cluster.call(ApiKey.FIND_COORDINATOR, body)
    row = reply.coordinators[0] if reply.coordinators else reply
    if row.error_code:
        raise refused(row.error_code, group_subject(group_id), row.error_message)
    node_id: int = row.node_id
    if node_id not in cluster.view.brokers:
        await cluster.refresh(())
    return node_id
