"""Each partition is opened once, however many race for it, and follows its topic's life."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from runnel.core.metadata import ClusterImage, NewTopic
from runnel.services.node import Node
from runnel.services.partition import Partition
from runnel.services.partitions import now_ms
from runnel.storage.files import MemoryFiles
from runnel.storage.log import Log
from runnel.testing.faults import VolatileFiles
from runnel.wire.batch import encode_batch
from runnel.wire.errors import ErrorCode, Refusal


async def node_with(topic: str, partitions: int, files: MemoryFiles | None = None) -> Node:
    node = await Node.start(None, {}, 64, files)
    await node.topics.create([NewTopic(topic, partitions)], False)
    return node


def test_a_hundred_racers_open_a_partition_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    original = Log.open.__func__  # type: ignore[attr-defined]

    def counting(cls: type[Log], directory: Path, *arguments: object, **named: object) -> Log:
        opened.append(directory)
        result: Log = original(cls, directory, *arguments, **named)
        return result

    async def scenario() -> None:
        node = await node_with("t", 2)
        monkeypatch.setattr(Log, "open", classmethod(counting))
        found = await asyncio.gather(*(node.partitions.open("t", i % 2) for i in range(100)))
        assert len(set(map(id, found))) == 2
        assert sorted(path.name for path in opened) == ["t-0", "t-1"]
        await node.stop()

    asyncio.run(scenario())


def test_a_deleted_topic_is_gone_with_its_folder_and_a_new_one_is_empty() -> None:
    async def scenario() -> None:
        files = MemoryFiles()
        node = await node_with("t", 1, files)
        before = await node.partitions.open("t", 0)
        await node.topics.delete(["t"])
        assert not node.partitions.exists("t", 0)
        assert "t-0" not in files.list("/memory")
        with pytest.raises(Refusal) as raised:
            await node.partitions.open("t", 0)
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await node.topics.create([NewTopic("t", 1)], False)
        after = await node.partitions.open("t", 0)
        assert after.topic_id != before.topic_id
        assert after.high_watermark == 0
        await node.stop()

    asyncio.run(scenario())


async def put(node: Node, partition: Partition, count: int) -> None:
    for _ in range(count):
        done = node.produce.append(
            partition, memoryview(encode_batch([(now_ms(), b"k", b"v", ())])), -1, True, now_ms()
        )
        assert done.durable is not None
        await done.durable


@pytest.mark.parametrize("is_deleted_before_a_crash", [False, True])
def test_a_topic_made_again_starts_where_it_started_and_not_where_the_old_one_did(
    is_deleted_before_a_crash: bool,
) -> None:
    """The checkpoints know partitions by name: an old log start must not take the records of the new log."""

    async def scenario() -> None:
        files = VolatileFiles()
        node = await node_with("t", 1, files)
        await put(node, await node.partitions.open("t", 0), 10)
        assert await node.partitions.trim("t", 0, 8) == 8
        if is_deleted_before_a_crash:
            node.partitions.follow = follow_nothing  # type: ignore[method-assign]
        await node.topics.delete(["t"])
        if is_deleted_before_a_crash:
            files = await crash(node, files)
            node = await Node.start(None, {}, 64, files)
        await node.topics.create([NewTopic("t", 1)], False)
        await put(node, await node.partitions.open("t", 0), 3)
        files = await crash(node, files)
        node = await Node.start(None, {}, 64, files)
        log = (await node.partitions.open("t", 0)).log
        assert (log.log_start_offset, log.end_offset) == (0, 3)
        await node.stop()

    asyncio.run(scenario())


async def follow_nothing(before: ClusterImage, image: ClusterImage, configs_changed: bool) -> None:
    """The broker dies between the record that deletes a topic and the renaming of its folders."""


async def crash(node: Node, files: VolatileFiles) -> VolatileFiles:
    """What the disk holds at this moment; the broker itself is put away."""
    left = files.power_loss(Random(1))
    await node.stop()
    return left


def test_a_config_change_reaches_an_open_partition() -> None:
    from runnel.core.metadata import ConfigChange, ConfigOperation, ConfigResource, ResourceType

    async def scenario() -> None:
        node = await node_with("t", 1)
        partition = await node.partitions.open("t", 0)
        changes = [
            ConfigChange("max.message.bytes", ConfigOperation.SET, "1234"),
            ConfigChange("segment.bytes", ConfigOperation.SET, "2097152"),
        ]
        (outcome,) = await node.configs.change([(ConfigResource(ResourceType.TOPIC, "t"), changes)], False)
        assert outcome.code is ErrorCode.NONE
        assert partition.settings.message_bytes_max == 1234
        assert partition.log.config.segment_bytes == 2097152
        await node.stop()

    asyncio.run(scenario())


def test_a_folder_that_no_topic_owns_is_kept_under_another_name() -> None:
    async def scenario() -> None:
        files = MemoryFiles()
        files.make_directory("/memory/lost-3")
        files.write_bytes("/memory/lost-3/00000000000000000000.log", b"precious")
        node = await Node.start(None, {}, 64, files)
        (stray,) = [name for name in files.list("/memory") if name.endswith("-stray")]
        assert stray.startswith("lost-3.")
        assert files.read_bytes(f"/memory/{stray}/00000000000000000000.log") == b"precious"
        await node.stop()

    asyncio.run(scenario())
