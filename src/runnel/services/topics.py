"""Creating, growing and deleting topics: refusals and results per topic, complete when they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from runnel.core.metadata import (
    Admission,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    PartitionsOutcome,
    TopicOutcome,
    admit_all,
)
from runnel.core.metadata.names import check_topic_name
from runnel.services.controller import Controller
from runnel.wire.errors import Refusal


class TopicService:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def create(
        self, topics: Sequence[NewTopic], validate_only: bool, admit: Admission = admit_all
    ) -> Sequence[TopicOutcome]:
        command = CreateTopics(topics, validate_only, admit)
        outcomes: Sequence[TopicOutcome] = await self._controller.submit(command)
        return outcomes

    async def delete(self, topics: Sequence[str | UUID], admit: Admission = admit_all) -> Sequence[TopicOutcome]:
        outcomes: Sequence[TopicOutcome] = await self._controller.submit(DeleteTopics(topics, admit=admit))
        return outcomes

    async def grow(
        self, topics: Sequence[NewPartitions], validate_only: bool, admit: Admission = admit_all
    ) -> Sequence[PartitionsOutcome]:
        command = CreatePartitions(topics, validate_only, admit)
        outcomes: Sequence[PartitionsOutcome] = await self._controller.submit(command)
        return outcomes

    @staticmethod
    def is_legal_name(name: str) -> bool:
        try:
            check_topic_name(name)
        except Refusal:
            return False
        return True
