"""Creating, growing and deleting topics: refusals and results per topic, complete when they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from runnel.core.metadata import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    PartitionsOutcome,
    TopicOutcome,
)
from runnel.core.metadata.names import check_topic_name
from runnel.services.controller import Controller
from runnel.wire.errors import Refusal


class TopicService:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def create(self, topics: Sequence[NewTopic], validate_only: bool) -> Sequence[TopicOutcome]:
        outcomes: Sequence[TopicOutcome] = await self._controller.submit(CreateTopics(topics, validate_only))
        return outcomes

    async def delete(self, topics: Sequence[str | UUID]) -> Sequence[TopicOutcome]:
        outcomes: Sequence[TopicOutcome] = await self._controller.submit(DeleteTopics(topics))
        return outcomes

    async def grow(self, topics: Sequence[NewPartitions], validate_only: bool) -> Sequence[PartitionsOutcome]:
        command = CreatePartitions(topics, validate_only)
        outcomes: Sequence[PartitionsOutcome] = await self._controller.submit(command)
        return outcomes

    @staticmethod
    def is_legal_name(name: str) -> bool:
        try:
            check_topic_name(name)
        except Refusal:
            return False
        return True
