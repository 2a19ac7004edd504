"""aiokafka: asyncio, older API versions (Produce 8, Fetch 11, ApiVersions from 0).

Its consumers heartbeat on their event loop, so one loop runs in a thread for as long as the driver lives.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from clients.drivers import NOT_KAFKAS, Committed, Received, Sent
from clients.drivers.aiokafka_admin import AiokafkaAdmin

CALL_SECONDS = 60.0
POLL_MS = 100
T = TypeVar("T")


class Loop:
    """An event loop in a thread, called from plain functions."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, CALL_SECONDS), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AiokafkaDriver:
    name = "aiokafka"
    codes_unknown: ClassVar[dict[int, int]] = {87: -1}  # INVALID_RECORD is newer than its table of errors

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @cached_property
    def _loop(self) -> Loop:
        return Loop()

    @cached_property
    def admin(self) -> AiokafkaAdmin:
        return AiokafkaAdmin(self.bootstrap, self._loop.run)

    def produce(self, topic: str, messages: Sequence[Sent], **options: Any) -> list[int]:
        return asyncio.run(asyncio.wait_for(self._produce(topic, messages, options), CALL_SECONDS))

    async def _produce(self, topic: str, messages: Sequence[Sent], options: dict[str, Any]) -> list[int]:
        compression = options.get("compression", "none")
        producer = AIOKafkaProducer(
            bootstrap_servers=options.get("bootstrap", self.bootstrap),
            acks=options.get("acks", "all"),
            compression_type=None if compression == "none" else compression,
            enable_idempotence=options.get("idempotent", False),
            max_request_size=options.get("request_bytes_max", 1_048_576),
            max_batch_size=options.get("batch_bytes", 16_384),
            linger_ms=options.get("linger_ms", 5),
            retry_backoff_ms=20,
        )
        await producer.start()
        try:
            futures = [await self._send(producer, topic, sent) for sent in messages]
            answers = [await future for future in futures]
            return [answer.offset for answer in answers if answer is not None]
        finally:
            await producer.stop()

    async def _send(self, producer: AIOKafkaProducer, topic: str, sent: Sent) -> Any:
        return await producer.send(
            topic,
            sent.value,
            key=sent.key,
            partition=sent.partition,
            timestamp_ms=sent.timestamp_ms,
            headers=list(sent.headers) or None,
        )

    def _reader(self, topic: str, settings: Mapping[str, Any]) -> AiokafkaReader:
        return AiokafkaReader(self._loop, topic, {"bootstrap_servers": self.bootstrap, **settings})

    def reader(self, topic: str, partitions: int = 1, *, reset: str = "earliest") -> AiokafkaReader:
        made = self._reader(topic, {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": reset})
        made.assign(range(partitions))
        return made

    def member(self, group: str, topic: str, **options: Any) -> AiokafkaReader:
        settings = {
            "group_id": group,
            "group_instance_id": options.get("instance"),
            "client_id": options.get("client_id", "aiokafka-driver"),
            "auto_offset_reset": "earliest",
            "enable_auto_commit": options.get("auto_commit", False),
            "heartbeat_interval_ms": 100,
        }
        made = self._reader(topic, settings)
        made.subscribe()
        return made

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        made = self._reader(topic, {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": "none"})
        try:
            made.assign([partition])
            made.seek(partition, start)
            return made.take(count)
        finally:
            made.close()

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)

        async def ask(consumer: AIOKafkaConsumer) -> tuple[int, int]:
            low = await consumer.beginning_offsets([place])
            high = await consumer.end_offsets([place])
            return low[place], high[place]

        return self._ask(ask)

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)

        async def ask(consumer: AIOKafkaConsumer) -> int | None:
            found = (await consumer.offsets_for_times({place: timestamp_ms}))[place]
            return None if found is None else found.offset

        return self._ask(ask)

    def _ask(self, question: Callable[[AIOKafkaConsumer], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap)
            await consumer.start()
            try:
                return await question(consumer)
            finally:
                await consumer.stop()

        return self._loop.run(run())

    def partition_count(self, topic: str) -> int:
        async def ask() -> int:
            producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap)
            await producer.start()
            try:
                return len(await producer.partitions_for(topic))
            finally:
                await producer.stop()

        return asyncio.run(asyncio.wait_for(ask(), CALL_SECONDS))

    def error_code(self, error: BaseException) -> int:
        return int(getattr(error, "errno", NOT_KAFKAS))

    def close(self) -> None:
        if "admin" in self.__dict__:
            self.admin.close()
        if "_loop" in self.__dict__:
            self._loop.close()


class AiokafkaReader(ConsumerRebalanceListener):
    def __init__(self, loop: Loop, topic: str, settings: Mapping[str, Any]) -> None:
        self.rebalances = 0
        self.revoked: set[int] = set()
        self._loop = loop
        self._topic = topic
        self._consumer = loop.run(self._start(settings))

    async def _start(self, settings: Mapping[str, Any]) -> AIOKafkaConsumer:
        """Inside of the loop, because the constructor looks for the running one."""
        consumer = AIOKafkaConsumer(
            fetch_max_wait_ms=100, max_partition_fetch_bytes=8 << 20, check_crcs=True, **settings
        )
        await consumer.start()
        return consumer

    def assign(self, partitions: Sequence[int]) -> None:
        async def assign() -> None:
            self._consumer.assign([self._place(index) for index in partitions])

        self._loop.run(assign())

    def subscribe(self) -> None:
        async def subscribe() -> None:
            self._consumer.subscribe([self._topic], listener=self)

        self._loop.run(subscribe())

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.revoked |= {place.partition for place in revoked}

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.rebalances += 1

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)

    def poll(self) -> list[Received]:
        batches = self._loop.run(self._consumer.getmany(timeout_ms=POLL_MS))
        return [_received(record) for records in batches.values() for record in records]

    def take(self, count: int) -> list[Received]:
        async def read() -> list[Received]:
            return [_received(await self._consumer.getone()) for _ in range(count)]

        return self._loop.run(read())

    def assigned(self) -> set[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def seek(self, partition: int, place: int | str) -> None:
        async def move() -> None:
            if place == "earliest":
                await self._consumer.seek_to_beginning(self._place(partition))
            elif place == "latest":
                await self._consumer.seek_to_end(self._place(partition))
            else:
                self._consumer.seek(self._place(partition), place)

        self._loop.run(move())

    def position(self, partition: int) -> int:
        return int(self._loop.run(self._consumer.position(self._place(partition))))

    def pause(self, partition: int) -> None:
        self._loop.run(self._now(self._consumer.pause, partition))

    def resume(self, partition: int) -> None:
        self._loop.run(self._now(self._consumer.resume, partition))

    async def _now(self, call: Callable[[TopicPartition], None], partition: int) -> None:
        """Some plain methods of the consumer look for the running loop."""
        call(self._place(partition))

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        wanted = {self._place(index): OffsetAndMetadata(one.offset, one.metadata) for index, one in offsets.items()}
        self._loop.run(self._consumer.commit(wanted))

    def committed(self, partition: int) -> Committed | None:
        """aiokafka's consumer tells the offset only; `commit-metadata` asks its admin client for the text."""
        found = self._loop.run(self._consumer.committed(self._place(partition)))
        return None if found is None else Committed(found, "")

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


def _received(record: Any) -> Received:
    return Received(
        record.offset,
        record.value,
        record.key,
        tuple(record.headers),
        record.timestamp,
        record.timestamp_type == 1,
        record.topic,
        record.partition,
    )


DRIVER = AiokafkaDriver
