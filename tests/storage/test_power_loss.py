"""The power goes before every single change of the disk; what was acknowledged is there afterwards, in order.

The workload is random but seeded. It is replayed up to each operation in turn; then the disk is left with nothing,
everything, or some torn pages and names of what was not fsynced, and the log is opened again.
"""

from __future__ import annotations

from random import Random

import pytest

from runnel.storage.files import Files
from runnel.storage.log import Log
from runnel.storage.syncing import SyncJob
from runnel.testing.faults import FaultyFiles, PowerLoss, Survival, VolatileFiles
from runnel.wire.batch import BatchHeader, iterate_headers
from storage.builders import MEMORY_ROOT, append, make_batch, open_log, read_headers, sync

CONFIG = {"segment_bytes": 900, "index_interval_bytes": 120, "retention_bytes": 2500, "retention_ms": -1}
DIRECTORY = MEMORY_ROOT / "topic-0"
PRODUCERS = (7, 8)


class World:
    """What the test knows: every batch by base offset, what was acknowledged as durable, what was checkpointed."""

    def __init__(self) -> None:
        self.payloads: dict[int, bytes] = {}
        self.sent: dict[int, list[BatchHeader]] = {producer: [] for producer in PRODUCERS}
        self.acked_offset = 0
        self.job: SyncJob | None = None
        self.job_ran = False
        self.recovery_point: int | None = None
        self.log_start_offset = 0

    def append(self, log: Log, random: Random) -> None:
        producer = random.choice([-1, *PRODUCERS])
        records = random.randint(1, 3)
        sequence = self.next_sequence(producer)
        value = random.randbytes(random.randint(0, 200))
        batch = make_batch(records, value=value, timestamp=1000, producer_id=producer, sequence=sequence)
        result = append(log, batch)
        assert not result.duplicate
        self.payloads[result.base_offset] = bytes(batch)
        if producer >= 0:
            self.sent[producer].append(next(iterate_headers(batch))[1])

    def next_sequence(self, producer: int) -> int:
        if producer < 0:
            return -1
        return self.sent[producer][-1].last_sequence + 1 if self.sent[producer] else 0

    def sync(self, log: Log) -> None:
        """One stage of a sync, as threads would interleave it: begin, run, finish."""
        if self.job is None:
            self.job = log.sync_job()
        elif not self.job_ran:
            self.job.run()
            self.job_ran = True
        else:
            log.synced(self.job)
            self.job, self.job_ran = None, False
            self.acked_offset = log.flushed_offset

    def step(self, log: Log, random: Random) -> None:
        choice = random.random()
        if choice < 0.55:
            self.append(log, random)
        elif choice < 0.85:
            self.sync(log)
        elif choice < 0.90:
            self.recovery_point = log.flushed_offset
        elif choice < 0.94:
            log.enforce_retention(2000, defer_removal=random.random() < 0.5)
        elif choice < 0.96:
            log.trim_prefix(random.randint(log.log_start_offset, log.end_offset))
        elif choice < 0.98:
            log.file_jobs.run_all()
        else:
            log.roll(1000)
        self.log_start_offset = log.log_start_offset

    def check(self, log: Log) -> None:
        """Nothing acknowledged is lost or changed; what is left is a gapless run of what was appended."""
        assert log.end_offset >= self.acked_offset
        assert log.log_start_offset <= max(self.log_start_offset, log.segments[0].base_offset)
        expected = log.log_start_offset
        for header in read_headers(log, expected):
            assert header.base_offset == expected or expected == log.log_start_offset > header.base_offset
            expected = header.next_offset
            plan = log.plan_read(max(header.base_offset, log.log_start_offset), 1)
            assert plan.read() == self.payloads[header.base_offset]
        assert expected == log.end_offset
        assert list(log.verify()) == []
        self.check_producers(log)

    def check_producers(self, log: Log) -> None:
        for producer in PRODUCERS:
            kept = [header for header in self.sent[producer] if header.last_offset < log.end_offset]
            for header in kept[-5:]:
                retry = make_batch(header.record_count, producer_id=producer, sequence=header.base_sequence)
                result = append(log, retry)
                assert result[:3] == (header.base_offset, header.last_offset, True)
            entry = log.producers.get(producer)
            assert (entry.last_sequence if entry else -1) == (kept[-1].last_sequence if kept else -1)

    def forget_lost(self, log: Log) -> None:
        """Continue from what survived."""
        self.payloads = {offset: data for offset, data in self.payloads.items() if offset < log.end_offset}
        for producer, headers in self.sent.items():
            self.sent[producer] = [header for header in headers if header.last_offset < log.end_offset]
        self.log_start_offset = log.log_start_offset
        self.acked_offset = log.flushed_offset
        self.job, self.job_ran = None, False


def fresh_files() -> VolatileFiles:
    files = VolatileFiles()
    files.make_directory(MEMORY_ROOT)
    files.sync_directory("/")
    return files


def run_until_power_loss(world: World, files: FaultyFiles, seed: int, steps: int, **options: object) -> bool:
    """Whether the power went; False if the workload came to its end."""
    random = Random(seed)
    try:
        log = open_log(files, DIRECTORY, **CONFIG, **options)
        for _ in range(steps):
            world.step(log, random)
    except PowerLoss:
        return True
    return False


def reopen(files: Files, world: World, random: Random) -> Log:
    point = random.choice([None, world.recovery_point])
    start = random.choice([None, min(world.log_start_offset, world.acked_offset)])
    return open_log(files, DIRECTORY, recovery_point=point, log_start_offset=start, **CONFIG)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))])
def test_nothing_acknowledged_is_lost_wherever_the_power_goes(seed: int) -> None:
    steps = 60
    dry = FaultyFiles(fresh_files())
    assert not run_until_power_loss(World(), dry, seed, steps)
    assert dry.operations > 50, "the workload must change the disk"
    for operation in range(dry.operations):
        world = World()
        files = FaultyFiles(fresh_files())
        files.stop_after(operation)
        assert run_until_power_loss(world, files, seed, steps)
        for survival in Survival:
            survivors = files.power_loss(Random(seed * 1000 + operation), survival)
            log = reopen(survivors, world, Random(operation))
            world.check(log)


# 35 and 61 once lost producers: a good snapshot was rewritten in place, and its sibling thrown away with it.
@pytest.mark.parametrize("seed", [*range(25), 35, 61])
def test_power_loss_after_power_loss(seed: int) -> None:
    """The log goes on after each recovery, including one that is itself cut off."""
    random = Random(seed)
    world = World()
    inner = fresh_files()
    for _ in range(6):
        files = FaultyFiles(inner)
        files.stop_after(random.randint(1, 60))
        options = {"recovery_point": world.recovery_point}
        run_until_power_loss(world, files, random.randrange(1 << 30), 40, **options)
        inner = files.power_loss(random)
        log = reopen(inner.power_loss(random), world, random)  # a look at what a recovery now would see
        world.check(log)
        log = reopen(inner, world, random)
        world.check(log)
        world.forget_lost(log)
        world.recovery_point = random.choice([world.recovery_point, log.flushed_offset, None])
        log.close(clean=False)


@pytest.mark.parametrize("seed", range(10))
def test_a_clean_stop_then_power_loss_loses_nothing(seed: int) -> None:
    random = Random(seed)
    world = World()
    files = fresh_files()
    log = open_log(files, DIRECTORY, **CONFIG)
    for _ in range(60):
        world.step(log, random)
    end_offset, log_start_offset = log.end_offset, log.log_start_offset
    log.close(clean=True)
    survivors = files.power_loss(random, Survival.NOTHING)
    log = open_log(survivors, DIRECTORY, clean=True, log_start_offset=log_start_offset, **CONFIG)
    assert (log.end_offset, log.log_start_offset) == (end_offset, log_start_offset)
    world.check(log)


def test_unsynced_files_can_be_lost_or_the_test_proves_nothing() -> None:
    files = fresh_files()
    log = open_log(files, DIRECTORY, **CONFIG)
    append(log)
    assert files.power_loss(Random(0), Survival.NOTHING).list(MEMORY_ROOT) == []
    sync(log)
    survivors = files.power_loss(Random(0), Survival.NOTHING)
    append(log)
    assert open_log(survivors, DIRECTORY).end_offset == 1
