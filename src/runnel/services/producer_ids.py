"""Producer ids for idempotent producers: handed out from blocks that the metadata log reserves, never twice."""

from __future__ import annotations

import asyncio

from runnel.core.metadata import AllocateProducerIds, ProducerIdsOutcome
from runnel.services.controller import Controller
from runnel.wire.errors import Refusal


class ProducerIds:
    def __init__(self, controller: Controller, node_id: int) -> None:
        self._controller = controller
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        async with self._refill:
            if self._next == self._end:
                await self._reserve()
            producer_id = self._next
            self._next += 1
            return producer_id

    async def _reserve(self) -> None:
        outcome: ProducerIdsOutcome = await self._controller.submit(AllocateProducerIds(self._node_id))
        if outcome.code:
            raise Refusal(outcome.code, outcome.message or "")
        self._next = outcome.first_producer_id
        self._end = outcome.first_producer_id + outcome.count
