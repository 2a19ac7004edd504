"""aiokafka: asyncio, older API versions (Produce 8, Fetch 11, ApiVersions from 0)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from clients.drivers import Received, Sent

CALL_SECONDS = 60.0
T = TypeVar("T")


class AiokafkaDriver:
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

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
            linger_ms=5,
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

    def _with_consumer(self, work: Callable[[AIOKafkaConsumer], Awaitable[T]]) -> T:
        async def run() -> T:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                fetch_max_wait_ms=100,
                max_partition_fetch_bytes=8 << 20,
                check_crcs=True,
            )
            await consumer.start()
            try:
                return await work(consumer)
            finally:
                await consumer.stop()

        return asyncio.run(asyncio.wait_for(run(), CALL_SECONDS))

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        place = TopicPartition(topic, partition)

        async def read(consumer: AIOKafkaConsumer) -> list[Received]:
            consumer.assign([place])
            if start == "earliest":
                await consumer.seek_to_beginning(place)
            elif start == "latest":
                await consumer.seek_to_end(place)
            else:
                consumer.seek(place, start)
            return [_received(await consumer.getone(place)) for _ in range(count)]

        return self._with_consumer(read)

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)

        async def ask(consumer: AIOKafkaConsumer) -> tuple[int, int]:
            low = await consumer.beginning_offsets([place])
            high = await consumer.end_offsets([place])
            return low[place], high[place]

        return self._with_consumer(ask)

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)

        async def ask(consumer: AIOKafkaConsumer) -> int | None:
            found = (await consumer.offsets_for_times({place: timestamp_ms}))[place]
            return None if found is None else found.offset

        return self._with_consumer(ask)

    def partition_count(self, topic: str) -> int:
        async def ask() -> int:
            producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap)
            await producer.start()
            try:
                return len(await producer.partitions_for(topic))
            finally:
                await producer.stop()

        return asyncio.run(asyncio.wait_for(ask(), CALL_SECONDS))


def _received(record: Any) -> Received:
    return Received(
        record.offset,
        record.value,
        record.key,
        tuple(record.headers),
        record.timestamp,
        record.timestamp_type == 1,
    )


DRIVER = AiokafkaDriver
