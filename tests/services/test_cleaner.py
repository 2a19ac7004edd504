"""The cleaner on a running node: what it picks, how a round ends early, and that nothing is left of one that did."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest

from runnel.core.metadata import ConfigChange, ConfigOperation, ConfigResource, NewTopic, ResourceType
from runnel.services.node import Node
from runnel.services.partition import Partition
from runnel.services.partitions import now_ms
from runnel.storage.compaction.key_map import BATCH_BYTES, KEY_BYTES
from runnel.storage.files import Files
from runnel.testing.faults import FOREVER, FaultyFiles, VolatileFiles
from runnel.wire.batch import decode_records, encode_batch, iterate_headers

COMPACT = {"cleanup.policy": "compact"}
# The cleaner's own task stays asleep: each test says when a log is looked at.
ASLEEP = {"log.cleaner.backoff.ms": "86400000"}
STANDSTILL = {**ASLEEP, "log.cleaner.io.max.bytes.per.second": "1"}
LEFTOVERS = (".cleaned", ".swap", ".deleted")
DEADLINE_S = 60


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await scenario()

    asyncio.run(bounded())


async def until(check: Callable[[], object]) -> None:
    while not check():  # noqa: ASYNC110 - what is waited for happens in threads and other processes
        await asyncio.sleep(0.005)


async def started(data_dir: Path | None, settings: dict[str, str] | None = None, files: Files | None = None) -> Node:
    node = await Node.start(data_dir, ASLEEP if settings is None else settings, 64, files)
    await until(lambda: node.cleaner._idle.is_set())
    return node


async def topic(node: Node, name: str = "t", **configs: str) -> Partition:
    overrides = {**COMPACT, **{key.replace("_", "."): value for key, value in configs.items()}}
    await node.topics.create([NewTopic(name, 1, configs=overrides)], False)
    return await node.partitions.open(name, 0)


async def put(node: Node, partition: Partition, *pairs: tuple[bytes, bytes | None]) -> None:
    batch = encode_batch([(now_ms(), key, value, ()) for key, value in pairs])
    done = node.produce.append(partition, memoryview(batch), -1, True, now_ms())
    assert done.durable is not None
    await done.durable


async def seal(node: Node, partition: Partition) -> None:
    """Close the active segment, and have it on disk."""
    partition.log.roll(now_ms())
    node._flusher.sync_soon(partition)
    await until(lambda: partition.log.unsynced.is_clean)


async def dirty(node: Node, partition: Partition, rounds: int = 10, keys: int = 5) -> None:
    for number in range(rounds):
        await put(node, partition, *[(b"key-%d" % key, b"%d" % number) for key in range(keys)])
    await seal(node, partition)


def offsets(partition: Partition) -> list[int]:
    log, found = partition.log, []
    position = log.log_start_offset
    while position < log.end_offset:
        data = log.plan_read(position, 1 << 20).read()
        for at, header in iterate_headers(data):
            found += [record.offset for record in decode_records(data, at)]
            position = header.next_offset
    return found


def leftovers(partition: Partition) -> list[str]:
    return [name for name in partition.log.files.list(partition.log.path) if name.endswith(LEFTOVERS)]


def children() -> list[psutil.Process]:
    found = psutil.Process().children()
    return [each for each in found if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


async def change(node: Node, name: str, key: str, value: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, name)
    (outcome,) = await node.configs.change([(resource, [ConfigChange(key, ConfigOperation.SET, value)])], False)
    assert outcome.code == 0, outcome


# --- in order -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_dirty_log_is_cleaned_and_stays_clean_over_a_restart(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(tmp_path / "data" if kind == "disk" else None)
        partition = await topic(node)
        await dirty(node, partition)
        size = partition.log.size_bytes
        assert await node.cleaner.clean_one()
        assert offsets(partition) == list(range(45, 50))
        assert partition.log.size_bytes < size / 5
        assert (partition.log.end_offset, partition.high_watermark, partition.log.log_start_offset) == (50, 50, 0)
        assert not await node.cleaner.clean_one(), "nothing is left to do"
        assert leftovers(partition) == []
        await node.stop()
        if kind == "disk":
            text = (tmp_path / "data" / "cleaner-offset-checkpoint").read_text()
            assert text == "0\n1\nt 0 50\n", "Kafka's format"
            node = await started(tmp_path / "data")
            partition = await node.partitions.open("t", 0)
            assert partition.log.cleaned_offset == 50
            assert not await node.cleaner.clean_one()
            assert offsets(partition) == list(range(45, 50))
            await node.stop()

    run(scenario)


def test_the_child_is_there_only_while_there_is_work(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = children()
        node = await started(tmp_path / "data", {"log.cleaner.backoff.ms": "10"})
        partition = await topic(node)
        other = await topic(node, "u")
        assert children() == before, "a start costs no process"
        await dirty(node, partition)
        await dirty(node, other)
        await until(lambda: partition.log.cleaned_offset == 50 and other.log.cleaned_offset == 50)
        await until(lambda: children() == before)
        await node.stop()

    run(scenario)


def test_the_dirtiest_log_comes_first() -> None:
    async def scenario() -> None:
        node = await started(None)
        half, whole = await topic(node, "half"), await topic(node, "whole")
        await dirty(node, half, rounds=10)
        await node.cleaner.clean_one()
        await dirty(node, half, rounds=20)
        await dirty(node, whole, rounds=1, keys=1)
        assert await node.cleaner.clean_one()
        assert (half.log.cleaned_offset, whole.log.cleaned_offset) == (50, 1)
        assert await node.cleaner.clean_one()
        assert half.log.cleaned_offset == 150
        await node.stop()

    run(scenario)


def test_logs_below_the_dirty_ratio_and_those_that_only_delete_are_left_alone() -> None:
    async def scenario() -> None:
        node = await started(None)
        clean = await topic(node, "clean", **{"min.cleanable.dirty.ratio": "0.99"})
        await dirty(node, clean, keys=2000, rounds=1)
        assert await node.cleaner.clean_one(), "a log that was never cleaned is all dirt"
        await dirty(node, clean, rounds=1)
        deleting = await topic(node, "deleting", **{"cleanup.policy": "delete"})
        await dirty(node, deleting)
        assert not await node.cleaner.clean_one()
        await node.stop()

    run(scenario)


def test_the_key_map_has_the_size_that_it_was_given() -> None:
    async def scenario() -> None:
        settings = {
            "log.cleaner.dedupe.buffer.size": str(20 * (KEY_BYTES + BATCH_BYTES)),
            "log.cleaner.io.buffer.load.factor": "0.5",
        }
        node = await started(None, {**ASLEEP, **settings})
        partition = await topic(node)
        for number in range(30):
            await put(node, partition, (b"key-%d" % number, b"1"))
        await seal(node, partition)
        reached = []
        while await node.cleaner.clean_one():
            reached.append(partition.log.cleaned_offset)
            await change(node, "t", "min.cleanable.dirty.ratio", "0")
        assert reached == [10, 20, 30]
        await node.stop()

    run(scenario)


def test_max_compaction_lag_rolls_the_active_segment() -> None:
    async def scenario() -> None:
        node = await started(None)
        partition = await topic(node, **{"max.compaction.lag.ms": "1", "min.cleanable.dirty.ratio": "1"})
        await put(node, partition, (b"a", b"1"), (b"a", b"2"))
        await until(lambda: now_ms() > partition.log.active.created_ms + 1)
        await node.cleaner.clean_one()  # rolls; what is rolled is cleaned when it is on disk
        node._flusher.sync_soon(partition)
        await until(lambda: partition.log.unsynced.is_clean)
        assert await node.cleaner.clean_one()
        assert offsets(partition) == [1]
        await node.stop()

    run(scenario)


def test_switched_off_means_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(tmp_path / "data", {"log.cleaner.enable": "false", "log.cleaner.backoff.ms": "1"})
        assert node.cleaner._task is None
        await node.stop()

    run(scenario)


def test_the_policy_may_change_both_ways(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(tmp_path / "data")
        partition = await topic(node, **{"cleanup.policy": "delete"})
        await dirty(node, partition)
        assert not await node.cleaner.clean_one()
        await change(node, "t", "cleanup.policy", "compact")
        assert await node.cleaner.clean_one()
        await change(node, "t", "cleanup.policy", "delete")
        await dirty(node, partition)
        assert not await node.cleaner.clean_one()
        assert len(offsets(partition)) == 55
        await node.stop()
        (tmp_path / "data" / ".kafka_cleanshutdown").unlink()  # gaps are legal in a log that was compacted once
        node = await started(tmp_path / "data")
        partition = await node.partitions.open("t", 0)
        assert len(offsets(partition)) == 55
        await change(node, "t", "cleanup.policy", "compact,delete")
        assert await node.cleaner.clean_one()
        assert offsets(partition) == list(range(95, 100))
        await node.stop()

    run(scenario)


# --- ended early --------------------------------------------------------------------------------------------------


async def begun(node: Node, partition: Partition) -> asyncio.Task[bool]:
    """A round that goes on for ever, and has begun to write."""
    await dirty(node, partition)
    cleaning = asyncio.get_running_loop().create_task(node.cleaner.clean_one())
    await until(lambda: node.cleaner._under_way is not None)
    return cleaning


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_topic_may_be_deleted_and_made_again_under_way(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        before = children()
        node = await started(tmp_path / "data" if kind == "disk" else None, STANDSTILL)
        partition = await topic(node)
        cleaning = await begun(node, partition)
        await node.topics.delete(["t"])
        assert not await cleaning
        assert children() == before
        again = await topic(node)
        assert again.log.cleaned_offset is None
        await dirty(node, again)
        assert leftovers(again) == []
        assert len(offsets(again)) == 50
        await node.stop()

    run(scenario)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_change_of_policy_ends_the_round(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(tmp_path / "data" if kind == "disk" else None, STANDSTILL)
        partition = await topic(node)
        cleaning = await begun(node, partition)
        await change(node, "t", "retention.ms", "1000000")
        assert not cleaning.done(), "other configs do not concern it"
        await change(node, "t", "cleanup.policy", "delete")
        assert not await cleaning
        assert leftovers(partition) == []
        assert len(offsets(partition)) == 50
        await node.stop()

    run(scenario)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_stop_ends_the_round_and_loses_nothing(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        before = children()
        settings = {**STANDSTILL, "log.cleaner.backoff.ms": "1"}
        node = await started(tmp_path / "data" if kind == "disk" else None, settings)
        partition = await topic(node)
        await dirty(node, partition)
        await until(lambda: node.cleaner._under_way is not None)
        await node.stop()
        assert children() == before
        assert leftovers(partition) == []
        if kind == "disk":
            node = await started(tmp_path / "data")
            assert node._storage.was_clean
            assert len(offsets(await node.partitions.open("t", 0))) == 50
            await node.stop()

    run(scenario)


def test_retention_may_come_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(tmp_path / "data", STANDSTILL)
        partition = await topic(node, **{"cleanup.policy": "compact,delete"})
        cleaning = await begun(node, partition)
        await node.partitions.trim("t", 0, 50)
        under_way = node.cleaner._under_way
        assert under_way is not None
        under_way.round.abort()
        assert not await cleaning
        assert leftovers(partition) == []
        assert (partition.log.log_start_offset, offsets(partition)) == (50, [])
        await node.stop()

    run(scenario)


# --- failures -----------------------------------------------------------------------------------------------------


def test_a_child_that_is_killed_is_replaced_but_not_for_ever(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        before = children()
        node = await started(tmp_path / "data", STANDSTILL)
        partition = await topic(node)
        await dirty(node, partition)
        for _ in range(3):
            cleaning = asyncio.get_running_loop().create_task(node.cleaner.clean_one())
            await until(lambda: len(children()) > len(before))
            for each in children():
                if each not in before:
                    os.kill(each.pid, signal.SIGKILL)
            assert not await cleaning
        assert not await node.cleaner.clean_one()
        assert leftovers(partition) == []
        await put(node, partition, (b"a", b"1"))
        await node.stop()

    run(scenario)
    warned = [record.levelname for record in caplog.records if record.name == "runnel.cleaner"]
    assert warned == ["WARNING", "WARNING", "ERROR"]
    assert "t-0 cannot be compacted" in caplog.text


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_damaged_log_is_left_alone_and_the_others_go_on(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        node = await started(tmp_path / "data" if kind == "disk" else None)
        broken, whole = await topic(node, "broken"), await topic(node, "whole")
        await dirty(node, broken, rounds=20)
        await dirty(node, whole)
        flip(broken.log.files, broken.log.segments[0].log.path)
        results = [await node.cleaner.clean_one() for _ in range(3)]
        assert sorted(results) == [False, False, True]
        assert (broken.log.cleaned_offset, whole.log.cleaned_offset) == (None, 50)
        assert leftovers(broken) == []
        await put(node, broken, (b"a", b"1"))
        await node.stop()

    run(scenario)
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "broken-0 cannot be compacted" in line
    assert "the checksum is wrong" in line


def flip(files: Files, path: str) -> None:
    file = files.open(path)
    data = bytearray(file.read(0, file.size()))
    data[-1] ^= 1
    file.truncate(0)
    file.append((data,))


def test_a_full_disk_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        files = FaultyFiles(VolatileFiles())
        node = await started(None, files=files)
        partition = await topic(node)
        await dirty(node, partition)
        files.fail("write", error=errno.ENOSPC, times=FOREVER, path_contains=".cleaned")
        assert not await node.cleaner.clean_one()
        assert leftovers(partition) == []
        files.heal()
        assert await node.cleaner.clean_one()
        assert offsets(partition) == list(range(45, 50))
        await node.stop()

    run(scenario)
    assert "t-0 cannot be compacted now: no space left" in caplog.text


def test_a_disk_too_full_for_the_note_of_the_gaps_is_waited_for() -> None:
    async def scenario() -> None:
        files = FaultyFiles(VolatileFiles())
        node = await started(None, files=files)
        partition = await topic(node)
        await dirty(node, partition)
        files.fail("write", error=errno.ENOSPC, path_contains="compacted-checkpoint")
        assert not await node.cleaner.clean_one()
        assert partition.log.offline is None
        assert offsets(partition) == list(range(50))
        assert leftovers(partition) == []
        assert await node.cleaner.clean_one()
        assert offsets(partition) == list(range(45, 50))
        await node.stop()

    run(scenario)


def test_files_that_cannot_be_swapped_take_the_log_offline(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        files = FaultyFiles(VolatileFiles())
        node = await started(None, files=files)
        partition = await topic(node)
        await dirty(node, partition)
        files.fail("rename", error=errno.EIO, path_contains=".log.cleaned")
        assert not await node.cleaner.clean_one()
        assert partition.log.offline is not None
        await node.stop()

    run(scenario)
    assert "t-0 goes offline, its files could not be swapped" in caplog.text
