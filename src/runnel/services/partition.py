"""One partition as this broker serves it: its log, its leader epoch, its high watermark, and who waits for it."""

from __future__ import annotations

from asyncio import Future, TimerHandle, get_running_loop
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from runnel.services.flusher import SyncWait
from runnel.storage.errors import LogOffline
from runnel.storage.log import Log
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.types import NO_EPOCH

NEVER_OFFSET = 1 << 62


class AppendWaiter(Protocol):
    """Somebody who wants to hear of new data (a parked fetch)."""

    def appended(self, size_bytes: int) -> None: ...


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """The topic configs that the hot paths read, parsed once per change of metadata."""

    message_bytes_max: int
    log_append_time: bool
    timestamp_before_ms_max: int
    timestamp_after_ms_max: int
    flush_messages: int
    flush_ms: int
    flush_on_acks_all: bool
    keys_required: bool
    """The topic is compacted: a record without a key is refused."""


class Partition:
    __slots__ = (
        "high_watermark",
        "index",
        "leader_epoch",
        "log",
        "settings",
        "sync_timer",
        "sync_waits",
        "syncing",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self, topic: str, topic_id: UUID, index: int, log: Log, leader_epoch: int, settings: PartitionSettings
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.settings = settings
        # With one in-sync replica a record is committed when the leader has written it. Replication will move the
        # watermark to the lowest end offset of the in-sync replicas; readers already go by this field alone.
        self.high_watermark = log.end_offset
        self.waiters: set[AppendWaiter] = set()
        self.sync_waits: list[SyncWait] = []
        self.sync_timer: TimerHandle | None = None
        self.syncing = False

    def appended(self, size_bytes: int) -> None:
        """The leader's log has grown: move the watermark and tell who waits."""
        self.high_watermark = self.log.end_offset
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter.appended(size_bytes)

    def abandon(self) -> None:
        """The topic was deleted: whoever waits for it is answered, and nothing touches its files any more."""
        self.log.abandon()
        if self.sync_timer is not None:
            self.sync_timer.cancel()
        self.wake_all()

    async def quiet(self) -> None:
        """After ``abandon``: until no fsync is on its way, which would still write names into the folder."""
        if self.syncing:
            last: Future[None] = get_running_loop().create_future()
            self.sync_waits.append(SyncWait(NEVER_OFFSET, last))
            with suppress(LogOffline):
                await last

    def wake_all(self) -> None:
        """Something other than data changed (deleted, offline): whoever waits must look again."""
        for waiter in tuple(self.waiters):
            waiter.appended(1 << 62)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch that is not above ``epoch``, and where it ended; (-1, -1) where unknown (KIP-101)."""
        if epoch == self.leader_epoch:  # also when nothing has been appended in this epoch yet
            return epoch, self.log.end_offset
        if NO_EPOCH != epoch < self.leader_epoch and not self.log.epochs.entries:
            return epoch, self.log.end_offset  # nothing was ever written: this leader began where that one ended
        return self.log.end_offset_for_epoch(epoch)

    def check_leader_epoch(self, current: int) -> None:
        """KIP-320: a client that knows another epoch than ours must refresh its metadata, or we must."""
        if current == NO_EPOCH or current == self.leader_epoch:
            return
        if current < self.leader_epoch:
            raise Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch is {self.leader_epoch}, not {current}")
        raise Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch is {self.leader_epoch}, not yet {current}")
