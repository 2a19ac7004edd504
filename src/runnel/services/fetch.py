"""Reading: plan what can be answered now, wait if that is too little, then read the file bytes as they lie.

All waiting for data lives here. A plan costs no I/O; bytes in the page cache are read on the loop, cold ones in a
thread, so that a consumer of old data does not hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from runnel.services.fetch_sessions import TopicPartition
from runnel.services.partition import Partition
from runnel.services.partitions import Partitions
from runnel.storage.errors import LogOffline
from runnel.storage.reading import ReadPlan
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.fetch import FetchPartition, FetchPartitionReply
from runnel.wire.types import NO_EPOCH

log = logging.getLogger("runnel.fetch")

READ_THREADS = 4
ABSENT_CODES = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Limits(NamedTuple):
    """How much and how long one fetch may take."""

    bytes_min: int
    bytes_max: int
    wait_ms_max: int
    read_committed: bool


class Planned(NamedTuple):
    """The answer for one partition; its records are still to be read where ``plan`` is not None."""

    key: TopicPartition
    reply: FetchPartitionReply
    plan: ReadPlan | None


class ParkedFetch:
    """A fetch that waits until enough bytes have been appended to any of its partitions."""

    __slots__ = ("future", "missing_bytes")

    def __init__(self, future: asyncio.Future[None], missing_bytes: int) -> None:
        self.future = future
        self.missing_bytes = missing_bytes

    def appended(self, size_bytes: int) -> None:
        self.missing_bytes -= size_bytes
        if self.missing_bytes <= 0 and not self.future.done():
            self.future.set_result(None)


Requests = Sequence[tuple[TopicPartition, FetchPartition]]


class FetchService:
    def __init__(self, partitions: Partitions, response_bytes_max: int) -> None:
        self._partitions = partitions
        self._response_bytes_max = response_bytes_max
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="runnel-read")
        self._parked: set[ParkedFetch] = set()
        self._stopping = False

    def close(self) -> None:
        self._readers.shutdown(wait=True)

    def wake_all(self) -> None:
        """The broker stops: whoever waits for data is answered with what there is."""
        self._stopping = True
        for parked in tuple(self._parked):
            parked.appended(1 << 62)

    # --- planning ---------------------------------------------------------------------------------------------

    def plan(self, requests: Requests, limits: Limits, denied: frozenset[str]) -> tuple[list[Planned], bool]:
        """What can be answered now, and whether that is enough to answer."""
        left = min(limits.bytes_max, self._response_bytes_max)
        total, ready = 0, not requests
        planned: list[Planned] = []
        for key, fetch in requests:
            try:
                one = self._plan_one(key, fetch, left, total == 0, limits.read_committed, denied)
            except Refusal as refusal:
                one = Planned(key, self._refused(fetch.index, refusal), None)
                ready = True
            if one.plan is not None:
                total += one.plan.length
                left -= one.plan.length
                # A plan ends with its segment: more is there already, so waiting for more would be wrong.
                ready = ready or one.plan.is_sealed
            elif one.reply.diverging_epoch is not None:
                ready = True
            planned.append(one)
        return planned, ready or total >= limits.bytes_min

    def _plan_one(
        self,
        key: TopicPartition,
        fetch: FetchPartition,
        left: int,
        min_one: bool,
        read_committed: bool,
        denied: frozenset[str],
    ) -> Planned:
        if key.topic in denied:
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self._partitions.open_partitions.get((key.topic, key.partition))
        if partition is None:
            raise self._partitions.why_absent(key.topic, key.topic_id, key.partition)
        if key.topic_id.int and key.topic_id != partition.topic_id:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {key.topic_id}")
        partition.check_leader_epoch(max(fetch.current_leader_epoch, NO_EPOCH))
        diverging = self._divergence(partition, fetch)
        plan: ReadPlan | None = None
        if diverging is None:
            size_max = min(left, fetch.partition_max_bytes)
            plan = self._read_plan(partition, fetch.fetch_offset, size_max, min_one)
        reply = FetchPartitionReply(
            key.partition,
            0,
            partition.high_watermark,
            partition.high_watermark,  # without transactions, all that is committed is stable
            partition.log.log_start_offset,
            () if read_committed and diverging is None else None,
            diverging_epoch=diverging,
        )
        return Planned(key, reply, plan)

    def _read_plan(self, partition: Partition, offset: int, size_max: int, min_one: bool) -> ReadPlan | None:
        try:
            plan = partition.log.plan_read(offset, max(size_max, 0), partition.high_watermark, min_one=min_one)
        except LogOffline as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return None if plan.is_empty else plan

    @staticmethod
    def _divergence(partition: Partition, fetch: FetchPartition) -> tuple[int, int] | None:
        """KIP-595 truncation detection: where the reader's last epoch ended here, if not where it believes."""
        if fetch.last_fetched_epoch < 0:
            return None
        epoch, end_offset = partition.end_of_epoch(fetch.last_fetched_epoch)
        if epoch == NO_EPOCH:
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {fetch.last_fetched_epoch}")
        if epoch < fetch.last_fetched_epoch or end_offset < fetch.fetch_offset:
            return (epoch, end_offset)
        return None

    def _refused(self, index: int, refusal: Refusal) -> FetchPartitionReply:
        # As Kafka: an empty list where there is no such partition, else null.
        aborted = () if refusal.code in ABSENT_CODES else None
        return FetchPartitionReply(index, refusal.code, -1, -1, -1, aborted)

    # --- waiting ----------------------------------------------------------------------------------------------

    async def wait_and_plan(self, requests: Requests, limits: Limits, denied: frozenset[str]) -> list[Planned]:
        """Plan again whenever data comes, until it is enough or the time is up."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + limits.wait_ms_max / 1000
        while True:
            # Park first, then plan: what is appended in between would be missed the other way round.
            parked = self._park(loop, limits.bytes_min)
            touched = self._watch(requests, parked)
            try:
                planned, enough = self.plan(requests, limits, denied)
                left_s = deadline_s - loop.time()
                if enough or left_s <= 0 or self._stopping:
                    return planned
                parked.missing_bytes -= sum(one.plan.length for one in planned if one.plan is not None)
                await self._until_woken(loop, parked, left_s)
            finally:
                self._parked.discard(parked)
                for partition in touched:
                    partition.waiters.discard(parked)

    def _park(self, loop: asyncio.AbstractEventLoop, bytes_min: int) -> ParkedFetch:
        parked = ParkedFetch(loop.create_future(), bytes_min)
        self._parked.add(parked)
        return parked

    def _watch(self, requests: Requests, parked: ParkedFetch) -> list[Partition]:
        touched: list[Partition] = []
        for key, _ in requests:
            partition = self._partitions.open_partitions.get((key.topic, key.partition))
            if partition is not None:
                partition.waiters.add(parked)
                touched.append(partition)
        return touched

    @staticmethod
    async def _until_woken(loop: asyncio.AbstractEventLoop, parked: ParkedFetch, left_s: float) -> None:
        timer = loop.call_later(left_s, parked.appended, 1 << 62)
        try:
            await parked.future
        finally:
            timer.cancel()

    # --- reading ----------------------------------------------------------------------------------------------

    @staticmethod
    def is_resident(planned: Iterable[Planned]) -> bool:
        return all(one.plan is None or one.plan.resident() for one in planned)

    @staticmethod
    def read(planned: Sequence[Planned]) -> list[tuple[TopicPartition, FetchPartitionReply]]:
        """Fill in the records; blocks on the disk where they are not in memory. Thread safe."""
        return [(one.key, _with_records(one)) for one in planned]

    async def read_cold(self, planned: Sequence[Planned]) -> list[tuple[TopicPartition, FetchPartitionReply]]:
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.read, planned)


def _with_records(one: Planned) -> FetchPartitionReply:
    if one.plan is None:
        return one.reply
    try:
        return one.reply._replace(records=one.plan.read())
    except (OSError, Refusal) as error:
        log.error("cannot read %s-%d: %s", one.key.topic, one.key.partition, error)
        return FetchPartitionReply(one.key.partition, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
