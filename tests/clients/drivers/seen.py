"""What administrators are shown, as plain values that every client's answer can be turned into."""

from __future__ import annotations

from typing import NamedTuple


class ConfigSeen(NamedTuple):
    """One config of a resource."""

    value: str | None
    is_default: bool


class MemberSeen(NamedTuple):
    """One member of a described group, on its one topic."""

    client_id: str
    partitions: set[int]


class GroupSeen(NamedTuple):
    """A described group; the state is spelt as in "Stable"."""

    state: str
    members: list[MemberSeen]


class ClusterSeen(NamedTuple):
    """A described cluster; addresses by broker id."""

    cluster_id: str | None
    controller: int
    addresses: dict[int, str]


class QuorumSeen(NamedTuple):
    """The Raft quorum of the metadata log."""

    leader: int
    voters: set[int]
    high_watermark: int
