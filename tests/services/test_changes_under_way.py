"""What is in the metadata log is carried out, whoever hangs up; names are free only when their folders are."""

from __future__ import annotations

import asyncio

import pytest

from runnel.core.metadata import NewTopic
from runnel.services.node import Node
from runnel.storage.files import Files, MemoryFiles
from runnel.testing.faults import FaultyFiles
from runnel.wire.batch import encode_batch
from runnel.wire.errors import ErrorCode, Refusal


async def started(files: Files | None = None) -> Node:
    return await Node.start(None, {}, 64, files)


def batch() -> memoryview:
    return memoryview(encode_batch([(1_700_000_000_000, b"k", b"v", ())]))


def test_a_change_whose_client_hung_up_is_still_replayed() -> None:
    async def scenario() -> None:
        files = MemoryFiles()
        node = await started(files)
        for name in ("first", "second"):
            asked = asyncio.create_task(node.topics.create([NewTopic(name, 1)], False))
            await asyncio.sleep(0)  # it has begun
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        # The retry of the one that hung up hears that it is there: it was logged once, and replayed.
        (outcome,) = await node.topics.create([NewTopic("first", 1)], False)
        assert outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS
        await node.stop()
        again = await started(files)
        assert sorted(again.image.topics) == ["first", "second"]
        await again.stop()

    asyncio.run(scenario())


def test_a_topic_made_again_while_its_deletion_runs_keeps_its_folders() -> None:
    async def scenario() -> None:
        files = MemoryFiles()
        node = await started(files)
        for _ in range(5):
            await node.topics.create([NewTopic("t", 20)], False)
            for index in range(20):
                partition = await node.partitions.open("t", index)
                node.produce.append(partition, batch(), 1, True, 1_700_000_000_000)
            deletion = asyncio.create_task(node.topics.delete(["t"]))
            await asyncio.sleep(0)
            (made,) = await node.topics.create([NewTopic("t", 20)], False)
            assert made.code is ErrorCode.NONE
            for index in range(20):
                partition = await node.partitions.open("t", index)
                assert partition.high_watermark == 0
                done = node.produce.append(partition, batch(), -1, True, 1_700_000_000_000)
                assert done.durable is not None
                await done.durable
            await deletion
            assert {f"t-{index}" for index in range(20)} <= set(files.list("/memory"))
            await node.topics.delete(["t"])
        await node.stop()

    asyncio.run(scenario())


def test_checkpoints_written_at_once_are_whole_and_the_last_counts() -> None:
    async def scenario() -> None:
        files = MemoryFiles()
        node = await started(files)
        await node.topics.create([NewTopic("t", 8)], False)
        for index in range(8):
            partition = await node.partitions.open("t", index)
            for _ in range(10):
                node.produce.append(partition, batch(), 1, True, 1_700_000_000_000)
        trims = [node.partitions.trim("t", index, offset) for offset in range(1, 10) for index in range(8)]
        await asyncio.gather(*trims)
        text = files.read_bytes("/memory/log-start-offset-checkpoint").decode()
        assert text.splitlines()[:2] == ["0", "8"]
        assert sorted(text.splitlines()[2:]) == [f"t {index} 9" for index in range(8)]
        await node.stop()

    asyncio.run(scenario())


def test_a_clean_stop_does_not_vouch_for_logs_that_were_never_checked() -> None:
    async def scenario() -> None:
        files = MemoryFiles()
        node = await started(files)
        await node.topics.create([NewTopic("t", 2)], False)
        await node.stop()
        files.remove("/memory/.kafka_cleanshutdown")  # as a crash leaves it
        for opened, vouched in (((0,), False), ((0, 1), True)):
            node = await started(files)
            for index in opened:
                await node.partitions.open("t", index)
            await node.stop()
            assert files.exists("/memory/.kafka_cleanshutdown") is vouched

    asyncio.run(scenario())


def test_a_deleted_topic_answers_who_waits_for_its_fsync() -> None:
    async def scenario() -> None:
        node = await started()
        await node.topics.create([NewTopic("t", 1)], False)
        partition = await node.partitions.open("t", 0)
        done = node.produce.append(partition, batch(), -1, True, 1_700_000_000_000)
        await node.topics.delete(["t"])
        assert done.durable is not None
        await asyncio.wait([done.durable], timeout=30)
        assert done.durable.done()
        done.durable.exception()
        with pytest.raises(Refusal):
            node.produce.append(partition, batch(), 1, True, 1_700_000_000_000)
        await node.stop()

    asyncio.run(scenario())


def test_a_metadata_log_without_space_refuses_and_the_broker_goes_on() -> None:
    async def scenario() -> None:
        files = FaultyFiles()
        node = await started(files)
        await node.topics.create([NewTopic("there", 1)], False)
        files.fail("write", error=28, path_contains="__cluster_metadata-0/000")
        with pytest.raises(Refusal) as raised:
            await node.topics.create([NewTopic("not-there", 1)], False)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        files.heal()
        (outcome,) = await node.topics.create([NewTopic("not-there", 1)], False)
        assert outcome.code is ErrorCode.NONE
        await node.stop()

    asyncio.run(scenario())
