"""The group coordinator of this broker: finds or loads the shard of a group, asks it, and keeps its time.

`__consumer_offsets` is made on first need. A shard is loaded when first used. One timer serves all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

from runnel.core.groups import (
    ClusterView,
    Commit,
    ConsumerGroupDescription,
    GroupDescription,
    GroupListing,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    LeaveReply,
    Leaving,
    OffsetCommitted,
    Offsets,
    Resolution,
    Sync,
    SyncReply,
    Turn,
)
from runnel.core.metadata import ClusterImage, CreateTopics, NewTopic, TopicImage, TopicOutcome
from runnel.services.configs import ConfigService
from runnel.services.controller import Controller
from runnel.services.flusher import Flusher
from runnel.services.group_settings import group_limits
from runnel.services.group_shard import GroupShard, Token
from runnel.services.partitions import Partitions
from runnel.services.topic_patterns import TopicPatterns
from runnel.storage.errors import StorageError
from runnel.wire.errors import ErrorCode, Malformed, Refusal

log = logging.getLogger("runnel.groups")

OFFSETS_TOPIC = "__consumer_offsets"
TIMER_SLACK_MS = 1
GROUPS_REMEMBERED_MAX = 4096


@lru_cache(GROUPS_REMEMBERED_MAX)
def partition_of(group_id: str, partitions: int) -> int:
    """Java's String.hashCode over UTF-16 without its sign, as every Kafka broker and tool computes it."""
    code = 0
    units = group_id.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8) + units[index + 1]) & 0xFFFF_FFFF
    return min(code, (1 << 32) - code) % (1 << 31) % partitions  # Kafka's Utils.abs: the least int becomes 0


class SteadyClock:
    """Milliseconds since the epoch that never jump: sessions must not end because a clock was set."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000


class GroupService:
    def __init__(
        self, controller: Controller, partitions: Partitions, configs: ConfigService, flusher: Flusher
    ) -> None:
        self._controller = controller
        self._partitions = partitions
        self._configs = configs
        self._flusher = flusher
        self._limits = group_limits(configs)
        self._patterns = TopicPatterns()
        self._now_ms = SteadyClock()
        self._loop = asyncio.get_running_loop()
        self._shards: dict[int, GroupShard] = {}
        self._loading: dict[int, asyncio.Task[GroupShard]] = {}
        self._topic_creation = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._sweeper: asyncio.Task[None] | None = None
        self._stopping = False

    # --- members ----------------------------------------------------------------------------------------------

    async def join(self, join: Join) -> JoinReply:
        reply: JoinReply = await self._ask(join.group_id, lambda m, token, now_ms: m.join(join, token, now_ms))
        return reply

    async def sync(self, sync: Sync) -> SyncReply:
        reply: SyncReply = await self._ask(sync.group_id, lambda m, token, now_ms: m.sync(sync, token, now_ms))
        return reply

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """At once where the group is loaded: nothing is logged for a heartbeat."""
        shard = self._loaded(group_id)
        if shard is None:
            return self._heartbeat_later(group_id, generation, member_id, instance_id)
        code = shard.machine.heartbeat(group_id, generation, member_id, instance_id, self._now_ms())
        self._set_timer(shard)
        return code

    async def _heartbeat_later(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None
    ) -> ErrorCode:
        await self._shard(group_id)
        code = self.heartbeat(group_id, generation, member_id, instance_id)
        return code if isinstance(code, ErrorCode) else await code

    def consumer_heartbeat(
        self, beat: Heartbeat, *, client_names_members: bool
    ) -> HeartbeatReply | Awaitable[HeartbeatReply]:
        """KIP-848. At once where the group is loaded and nothing is new."""
        shard = self._loaded(beat.group_id)
        if shard is None or beat.regex or shard.machine.regexes_to_resolve(beat.group_id, self._now_ms()):
            return self._consumer_heartbeat(beat, client_names_members)
        return self._beat(shard, beat, None, client_names_members)

    def _beat(
        self, shard: GroupShard, beat: Heartbeat, resolution: Resolution | None, client_names_members: bool
    ) -> HeartbeatReply | Awaitable[HeartbeatReply]:
        reply: HeartbeatReply | Awaitable[HeartbeatReply] = shard.ask_now(
            lambda now_ms: shard.machine.consumer_heartbeat(
                beat, resolution, now_ms, client_names_members=client_names_members
            )
        )
        self._set_timer(shard)
        return reply

    async def _consumer_heartbeat(self, beat: Heartbeat, client_names_members: bool) -> HeartbeatReply:
        shard = await self._shard(beat.group_id)
        resolution = None
        if beat.epoch >= 0:
            regexes = shard.machine.regexes_to_resolve(beat.group_id, self._now_ms())
            resolution = await self._resolve(beat.regex or "", regexes)
        reply = self._beat(shard, beat, resolution, client_names_members)
        return reply if isinstance(reply, HeartbeatReply) else await reply

    async def _resolve(self, own: str, others: Sequence[str]) -> Resolution:
        """Refusal for the member's own expression only: what others subscribed with was good once."""
        topics = self._controller.image.topics
        matches = {own: await self._patterns.matches(own, topics)} if own else {}
        for regex in set(others) - {own}:
            with contextlib.suppress(Refusal):
                matches[regex] = await self._patterns.matches(regex, topics)
        return Resolution(topics, matches)

    async def leave(self, group_id: str, leaving: Sequence[Leaving]) -> LeaveReply:
        reply: LeaveReply = await self._ask(group_id, lambda m, _, now_ms: m.leave(group_id, leaving, now_ms))
        return reply

    # --- offsets ----------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> Sequence[ErrorCode]:
        """One code per offset, when those that were taken are on disk."""
        codes: Sequence[ErrorCode] = await self._ask(commit.group_id, lambda m, _, now_ms: m.commit(commit, now_ms))
        return codes

    async def offsets(self, group_id: str, member_id: str | None = None, epoch: int = -1) -> Offsets:
        """What a group has committed; none of it can be lost by a crash after this. A member of a consumer group says
        who it is."""
        shard = await self._shard(group_id)
        shard.machine.check_fetch(group_id, member_id, epoch)
        offsets = shard.machine.offsets_of(group_id).copy()
        await shard.settled()
        return offsets

    async def delete_offsets(self, group_id: str, wanted: Sequence[tuple[str, int]]) -> Sequence[ErrorCode]:
        codes: Sequence[ErrorCode] = await self._ask(group_id, lambda m, _, __: m.delete_offsets(group_id, wanted))
        return codes

    # --- groups -----------------------------------------------------------------------------------------------

    async def describe(self, group_id: str) -> GroupDescription:
        """A classic group. Refusal where there is none of that name."""
        return (await self._shard(group_id)).machine.describe(group_id)

    async def describe_consumer(self, group_id: str) -> ConsumerGroupDescription:
        """A consumer group. Refusal where there is none of that name."""
        return (await self._shard(group_id)).machine.describe_consumer(group_id)

    async def delete(self, group_id: str) -> ErrorCode:
        code: ErrorCode = await self._ask(group_id, lambda m, _, __: m.delete(group_id))
        return code

    async def listing(self, states: Sequence[str], types: Sequence[str]) -> list[GroupListing]:
        await self.load_all()
        wanted = {state.lower() for state in states}, {name.lower() for name in types}
        return [row for _, shard in sorted(self._shards.items()) for row in shard.machine.listing(*wanted)]

    # --- shards -----------------------------------------------------------------------------------------------

    async def _ask(self, group_id: str, decide: Callable[[Any, Token, int], Turn]) -> Any:
        shard = self._loaded(group_id) or await self._shard(group_id)
        answer = shard.ask(lambda token, now_ms: decide(shard.machine, token, now_ms))
        self._set_timer(shard)
        return await answer

    def _topic(self) -> TopicImage | None:
        return self._controller.image.topics.get(OFFSETS_TOPIC)

    def _loaded(self, group_id: str) -> GroupShard | None:
        topic = self._topic()
        if topic is None or self._stopping:
            return None
        shard = self._shards.get(partition_of(group_id, len(topic.partitions)))
        return shard if shard is not None and shard.failure is None else None

    async def _shard(self, group_id: str) -> GroupShard:
        """The shard of a group, loaded if need be. Refusal where the coordinator cannot work."""
        if self._stopping:
            raise _stopping()
        topic = self._topic() or await self._create_topic()
        return await self._shard_at(partition_of(group_id, len(topic.partitions)))

    async def _create_topic(self) -> TopicImage:
        async with self._topic_creation:
            if self._topic() is None:
                await self._ask_for_topic()
        topic = self._topic()
        if topic is None:
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} could not be created")
        return topic

    async def _ask_for_topic(self) -> None:
        broker = self._configs.broker
        configs: dict[str, str | None] = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(broker["offsets.topic.segment.bytes"]),
        }
        counts = (broker["offsets.topic.num.partitions"], broker["offsets.topic.replication.factor"])
        command = CreateTopics([NewTopic(OFFSETS_TOPIC, *counts, configs=configs)])
        outcomes: Sequence[TopicOutcome] = await self._controller.submit(command)
        for outcome in outcomes:
            if outcome.code:
                log.error("%s could not be created: %s", OFFSETS_TOPIC, outcome.message)

    async def _shard_at(self, index: int) -> GroupShard:
        if self._stopping:
            raise _stopping()
        shard = self._shards.get(index)
        if shard is not None and shard.failure is None:
            return shard
        loading = self._loading.get(index)
        if loading is None:
            loading = self._loop.create_task(self._load(index))
            self._loading[index] = loading
            loading.add_done_callback(lambda _: self._loading.pop(index, None))
        return await asyncio.shield(loading)

    async def _load(self, index: int) -> GroupShard:
        try:
            partition = await self._partitions.open(OFFSETS_TOPIC, index)
            if partition.log.offline is not None:
                raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{OFFSETS_TOPIC}-{index} is offline")
            shard = GroupShard(partition, self._limits, self._flusher, self._now_ms)
            await shard.load()
            self._follow(shard, self._controller.image)
        except (Refusal, StorageError, OSError, Malformed) as error:
            log.error("the groups of %s-%d cannot be loaded: %s", OFFSETS_TOPIC, index, error)
            raise Refusal(ErrorCode.NOT_COORDINATOR, str(error)) from error
        self._shards[index] = shard
        shard.carry_out(shard.machine.forget(self._is_gone))
        self._set_timer(shard)
        return shard

    async def load_all(self) -> None:
        """Load every shard whose log holds something."""
        topic = self._topic()
        if topic is None:
            return
        missing = {(OFFSETS_TOPIC, index) for index in range(len(topic.partitions)) if index not in self._shards}
        usage = await self._partitions.disk_usage(missing)
        for (_, index), size_bytes in usage.partition_bytes.items():
            if size_bytes > 0:
                await self._shard_at(index)

    # --- topics -----------------------------------------------------------------------------------------------

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """Groups see the topics and the settings of now; offsets of topics that were deleted are dropped."""
        self._limits = group_limits(self._configs)
        for shard in self._shards.values():
            self._follow(shard, image)
        if before.topics is image.topics or all(
            topic.topic_id in image.topic_names for topic in before.topics.values()
        ):
            return
        for shard in self._shards.values():
            if shard.failure is None:
                shard.carry_out(shard.machine.forget(self._is_gone))

    def _follow(self, shard: GroupShard, image: ClusterImage) -> None:
        cluster = ClusterView(image.topics, image.topic_names, image.group_configs, image.version)
        shard.machine.follow(cluster, self._limits)

    def _is_gone(self, offset: OffsetCommitted) -> bool:
        topic = self._controller.image.topics.get(offset.topic)
        return topic is None or (bool(offset.topic_id.int) and offset.topic_id != topic.topic_id)

    # --- time -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._sweeper = self._loop.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Shards that nobody asked for are loaded once per interval, so that their offsets can expire too."""
        while True:
            await asyncio.sleep(self._limits.expiry_interval_ms / 1000)
            try:
                await self.load_all()
            except (Refusal, OSError) as error:
                log.error("not every group could be loaded: %s", error)

    def _set_timer(self, shard: GroupShard) -> None:
        due_ms = shard.machine.next_deadline_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms) or self._stopping:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_ms = max(due_ms - self._now_ms(), 0) + TIMER_SLACK_MS
        self._timer = self._loop.call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        for shard in self._shards.values():
            if shard.failure is not None:
                continue
            while (due_ms := shard.machine.next_deadline_ms()) is not None and due_ms <= now_ms:
                shard.carry_out(shard.machine.tick(now_ms))
            self._set_timer(shard)

    def release(self) -> None:
        """The broker stops: answer everybody who waits, and take no more requests."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        for shard in self._shards.values():
            shard.close()

    async def stop(self) -> None:
        self.release()
        waiting = [*self._loading.values(), *((self._sweeper,) if self._sweeper is not None else ())]
        await asyncio.gather(*waiting, return_exceptions=True)


def _stopping() -> Refusal:
    return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
