"""The cluster as a whole: its features, its quorum, who leads partitions and where their replicas are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from runnel.core.metadata import (
    AlterPartitionReassignments,
    ClusterImage,
    ElectLeaders,
    FeaturesOutcome,
    FeatureUpdate,
    PartitionImage,
    PartitionOutcome,
    PartitionReassignment,
    UpdateFeatures,
)
from runnel.services.controller import Controller
from runnel.services.partition import Partition


class QuorumState(NamedTuple):
    """The metadata log as its one voter has it. Committed is what is on disk."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    end_offset: int
    directory_id: UUID


class ClusterService:
    def __init__(self, controller: Controller, metadata: Partition, node_id: int, directory_id: UUID) -> None:
        self._controller = controller
        self._metadata = metadata
        self._node_id = node_id
        self._directory_id = directory_id

    @property
    def image(self) -> ClusterImage:
        return self._controller.image

    def quorum(self) -> QuorumState:
        log = self._metadata.log
        return QuorumState(
            self._node_id, self._metadata.leader_epoch, log.flushed_offset, log.end_offset, self._directory_id
        )

    async def update_features(self, updates: Sequence[FeatureUpdate], validate_only: bool) -> FeaturesOutcome:
        outcome: FeaturesOutcome = await self._controller.submit(UpdateFeatures(updates, validate_only))
        return outcome

    async def elect(
        self, election_type: int, partitions: Sequence[tuple[str, int]] | None
    ) -> Sequence[PartitionOutcome]:
        outcomes: Sequence[PartitionOutcome] = await self._controller.submit(ElectLeaders(election_type, partitions))
        return outcomes

    async def reassign(
        self, reassignments: Sequence[PartitionReassignment], factor_may_change: bool
    ) -> Sequence[PartitionOutcome]:
        command = AlterPartitionReassignments(reassignments, factor_may_change)
        outcomes: Sequence[PartitionOutcome] = await self._controller.submit(command)
        return outcomes

    def moving(self, wanted: Collection[tuple[str, int]] | None) -> Iterator[tuple[str, PartitionImage]]:
        """The partitions whose replicas are on the move: of these, or of all."""
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                if (partition.adding_replicas or partition.removing_replicas) and (
                    wanted is None or (topic.name, partition.index) in wanted
                ):
                    yield topic.name, partition
