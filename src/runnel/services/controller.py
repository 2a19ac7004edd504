"""Cluster metadata: the metadata machine on the log ``__cluster_metadata-0``.

Commands are committed one after the other. When a command's records are replayed, the new image is published and the
partitions of this broker follow it (deleted ones go, changed configs take effect) before the reply leaves: a topic is
there when its creation is answered, and gone when its deletion is.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from runnel.core.metadata import (
    ClusterImage,
    Command,
    MetadataMachine,
    MetadataRecord,
    decode_record,
    encode_record,
)
from runnel.services.flusher import Flusher
from runnel.services.hosting import Host
from runnel.services.partition import Partition
from runnel.storage.errors import LogOffline
from runnel.wire.errors import ErrorCode, Refusal

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = uuid.UUID(int=1)  # Kafka's own id of it

ImageChange = Callable[[ClusterImage, ClusterImage], Awaitable[None]]


class MetadataCodec:
    """Metadata records have no key; the value is Kafka's own encoding."""

    def encode(self, record: MetadataRecord) -> tuple[None, bytes]:
        return None, encode_record(record)

    def decode(self, key: bytes | None, value: bytes | None) -> MetadataRecord:
        return decode_record(value or b"")


class Controller:
    def __init__(
        self, machine: MetadataMachine, partition: Partition, flusher: Flusher, now_ms: Callable[[], int]
    ) -> None:
        self._machine = machine
        self._host: Host[MetadataRecord] = Host(partition, MetadataCodec(), self._replay, flusher, now_ms)
        self._image_changed: ImageChange | None = None
        self._changing = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()

    @property
    def image(self) -> ClusterImage:
        return self._machine.image

    def load(self) -> int:
        """Replay the metadata log (blocking, at start-up)."""
        return self._host.load()

    def on_change(self, image_changed: ImageChange) -> None:
        """Who has to follow the image before a change is answered."""
        self._image_changed = image_changed

    async def submit(self, command: Command) -> Any:
        """The machine's reply, when its records are committed and this broker has followed them.

        Carried out even if whoever asked goes away: what is in the log must be replayed.
        """
        work = asyncio.get_running_loop().create_task(self._submit(command))
        self._under_way.add(work)
        work.add_done_callback(self._done)
        return await asyncio.shield(work)

    def _done(self, work: asyncio.Task[Any]) -> None:
        self._under_way.discard(work)
        if not work.cancelled():
            work.exception()  # retrieved, also where nobody waits any more

    async def _submit(self, command: Command) -> Any:
        async with self._changing:  # until followed: a name is free again only when its old folders are out of the way
            before = self._machine.image
            try:
                reply = await self._host.submit(lambda now_ms: self._machine.handle(command, now_ms, new_topic_id))
            except (LogOffline, OSError) as error:
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log failed: {error}") from error
            if self._machine.image is not before and self._image_changed is not None:
                await self._image_changed(before, self._machine.image)
            return reply

    async def settle(self) -> None:
        """Wait until nothing is under way (the broker stops)."""
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))

    def _replay(self, records: Sequence[MetadataRecord]) -> None:
        self._machine.replay_all(records)


def new_topic_id() -> uuid.UUID:
    """Random, and never one that Kafka reserves or that reads as an option on a command line (leading dash)."""
    while True:
        topic_id = uuid.uuid4()
        if topic_id.int > 1:
            return topic_id
