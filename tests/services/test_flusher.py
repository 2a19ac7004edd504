"""Group commit is fair: nobody waits for ever behind logs that are always busy."""

from __future__ import annotations

import asyncio

from runnel.core.metadata import NewTopic
from runnel.services.flusher import SYNC_THREADS
from runnel.services.node import Node
from runnel.wire.batch import encode_batch

PARTITIONS = 3 * SYNC_THREADS


def test_every_partition_is_synced_though_all_are_always_busy() -> None:
    async def scenario() -> None:
        node = await Node.start(None, {}, 64)
        await node.topics.create([NewTopic("t", PARTITIONS)], False)
        rounds = [0] * PARTITIONS
        enough = asyncio.Event()

        async def produce_for_ever(index: int) -> None:
            partition = await node.partitions.open("t", index)
            waiting = []
            while not enough.is_set():
                batch = memoryview(encode_batch([(1_700_000_000_000, None, b"x", ())]))
                done = node.produce.append(partition, batch, -1, True, 1_700_000_000_000)
                assert done.durable is not None
                waiting.append(done.durable)
                if len(waiting) == 2:  # always one more in the log than is waited for: the log is never idle
                    await waiting.pop(0)
                    rounds[index] += 1
                if min(rounds) >= 3:
                    enough.set()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for index in range(PARTITIONS):
                group.create_task(produce_for_ever(index))
        assert min(rounds) >= 3
        await node.stop()

    asyncio.run(scenario())


def test_hints_of_a_log_that_nobody_reads_stay_few() -> None:
    async def scenario() -> None:
        node = await Node.start(None, {}, 64)
        await node.topics.create([NewTopic("t", 1)], False)
        partition = await node.partitions.open("t", 0)
        for _ in range(200):
            batch = memoryview(encode_batch([(1_700_000_000_000, None, b"x", ())]))
            done = node.produce.append(partition, batch, -1, True, 1_700_000_000_000)
            assert done.durable is not None
            await done.durable
        assert len(partition.log.hints) < 100
        await node.stop()

    asyncio.run(scenario())
