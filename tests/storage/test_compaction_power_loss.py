"""The power goes before every single change that compaction makes to the disk, and during the recovery from that.

The workload is random but seeded, and replayed up to each operation in turn. Afterwards the newest record of every key
must be there (of those that were not lost with an unsynced end), nothing that was never written, and every producer.
"""

from __future__ import annotations

from random import Random

import pytest

from runnel.storage.compaction.cleaning import Cleaned, clean
from runnel.storage.compaction.planning import dirt_of, job_of
from runnel.storage.compaction.swapping import finish, swap
from runnel.storage.files import Files
from runnel.storage.log import Log
from runnel.testing.faults import FaultyFiles, PowerLoss, Survival, VolatileFiles
from runnel.wire.batch import BatchHeader, read_header
from storage.builders import append, make_batch, open_log, sync
from storage.compaction_builders import Seen, keyed_batch, records
from storage.test_power_loss import DIRECTORY, fresh_files

PRODUCERS = (7, 8)
CONFIG = {
    "segment_bytes": 700,
    "index_interval_bytes": 120,
    "retention_ms": -1,
    "compacted": True,
    "delete_retention_ms": 10_000,
}
LEFTOVERS = (".cleaned", ".swap", ".deleted")


class World:
    """What the test knows: everything that was ever appended, and up to where it was acknowledged."""

    def __init__(self) -> None:
        self.appended: dict[int, Seen] = {}
        self.sent: dict[int, list[BatchHeader]] = {producer: [] for producer in PRODUCERS}
        self.acked_offset = 0
        self.cleaned_offset: int | None = None
        self.recovery_point: int | None = None
        self.now_ms = 1000
        self.swaps = 0

    def step(self, log: Log, random: Random) -> None:
        choice = random.random()
        if choice < 0.62:
            self.put(log, random)
        elif choice < 0.78:
            sync(log)
            self.acked_offset = log.flushed_offset
        elif choice < 0.82:
            log.roll(self.now_ms)
        elif choice < 0.86:
            self.recovery_point, self.cleaned_offset = log.flushed_offset, log.cleaned_offset
        else:
            self.compact(log, random)

    def put(self, log: Log, random: Random) -> None:
        self.now_ms += random.randint(0, 100)
        pairs = [
            (b"key-%d" % random.randint(0, 9), random.choice([None, random.randbytes(random.randint(0, 60))]))
            for _ in range(random.randint(1, 4))
        ]
        producer = random.choice([-1, *PRODUCERS])
        batch = keyed_batch(
            pairs,
            timestamp=self.now_ms,
            compression=random.choice([0, 0, 3]),
            producer_id=producer,
            sequence=self.next_sequence(producer),
        )
        base_offset = append(log, batch, now_ms=self.now_ms).base_offset
        for number, (key, value) in enumerate(pairs):
            self.appended[base_offset + number] = Seen(base_offset + number, key, value, self.now_ms + number)
        if producer >= 0:
            self.sent[producer].append(read_header(batch))

    def next_sequence(self, producer: int) -> int:
        if producer < 0:
            return -1
        return self.sent[producer][-1].last_sequence + 1 if self.sent[producer] else 0

    def compact(self, log: Log, random: Random) -> None:
        """Between the swap in memory and that of the files, others go on."""
        log.file_jobs.run_all()
        dirt = dirt_of(log, log.end_offset, self.now_ms)
        job = job_of(log, dirt, self.now_ms, key_map_bytes=random.choice([500, 100_000]), io_bytes_per_s=1e308)
        for found in clean(job, log.files, lambda _: None):
            if isinstance(found, Cleaned):
                assert swap(log, found, log.truncations)
                self.swaps += 1
                self.put(log, random)
                if random.random() < 0.5:
                    sync(log)
                    self.acked_offset = log.flushed_offset
                log.file_jobs.run_all()
            else:
                finish(log, found, log.truncations)
                log.file_jobs.run_all()

    def check(self, log: Log) -> None:
        assert log.end_offset >= self.acked_offset
        found = {seen.offset: seen for seen in records(log)}
        for offset, seen in found.items():
            assert seen == self.appended[offset]
        newest = {seen.key: seen for offset, seen in sorted(self.appended.items()) if offset < log.end_offset}
        for seen in newest.values():
            assert seen.offset in found or seen.value is None, "the newest record of a key is gone"
            if seen.offset not in found:
                assert not [each for each in found.values() if each.key == seen.key], "a deleted key is back"
        assert list(log.verify()) == []
        assert not [name for name in log.files.list(DIRECTORY) if name.endswith(LEFTOVERS)]
        self.check_producers(log)

    def check_producers(self, log: Log) -> None:
        for producer in PRODUCERS:
            kept = [header for header in self.sent[producer] if header.last_offset < log.end_offset]
            for header in kept[-5:]:
                retry = make_batch(header.record_count, producer_id=producer, sequence=header.base_sequence)
                assert append(log, retry)[:3] == (header.base_offset, header.last_offset, True)
            entry = log.producers.get(producer)
            assert (entry.last_sequence if entry else -1) == (kept[-1].last_sequence if kept else -1)

    def forget_lost(self, log: Log) -> None:
        self.appended = {offset: seen for offset, seen in self.appended.items() if offset < log.end_offset}
        for producer, headers in self.sent.items():
            self.sent[producer] = [header for header in headers if header.last_offset < log.end_offset]
        self.acked_offset = log.flushed_offset


def run_until_power_loss(world: World, files: FaultyFiles, seed: int, steps: int) -> bool:
    random = Random(seed)
    try:
        log = reopen(files, world)
        for _ in range(steps):
            world.step(log, random)
    except PowerLoss:
        return True
    return False


def reopen(files: Files, world: World, recovery_point: int | None = None) -> Log:
    options = {"recovery_point": recovery_point, "cleaned_offset": world.cleaned_offset, "now_ms": world.now_ms}
    return open_log(files, DIRECTORY, **options, **CONFIG)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 25))])
def test_no_newest_record_is_lost_wherever_the_power_goes(seed: int) -> None:
    steps = 45
    dry_world, dry = World(), FaultyFiles(fresh_files())
    assert not run_until_power_loss(dry_world, dry, seed, steps)
    assert dry_world.swaps >= 1, "the workload must compact"
    for operation in range(dry.operations):
        world = World()
        files = FaultyFiles(fresh_files())
        files.stop_after(operation)
        assert run_until_power_loss(world, files, seed, steps)
        for survival in Survival:
            survivors = files.power_loss(Random(seed * 1000 + operation), survival)
            point = Random(operation).choice([None, world.recovery_point])
            world.check(reopen(survivors, world, point))


@pytest.mark.parametrize("seed", range(20))
def test_power_loss_after_power_loss(seed: int) -> None:
    """The recovery is cut off too, again and again; then the log goes on."""
    random = Random(seed)
    world = World()
    inner = fresh_files()
    for _ in range(5):
        files = FaultyFiles(inner)
        files.stop_after(random.randint(20, 200))
        run_until_power_loss(world, files, random.randrange(1 << 30), 60)
        inner = files.power_loss(random)
        for _ in range(3):
            files = FaultyFiles(inner)
            files.stop_after(random.randint(0, 8))
            try:
                reopen(files, world)
            except PowerLoss:
                pass
            inner = files.power_loss(random)
        log = reopen(inner, world)
        world.check(log)
        world.forget_lost(log)
        log.close(clean=False)


def test_every_stage_of_the_swap_is_met_or_the_tests_prove_nothing() -> None:
    met: set[str] = set()
    for operation in range(400):
        files = FaultyFiles(fresh_files())
        files.stop_after(operation)
        if not run_until_power_loss(World(), files, 0, 45):
            break
        names = files.power_loss(Random(operation), Survival.EVERYTHING).list(DIRECTORY) if operation > 5 else []
        met |= {name.partition(".")[2] for name in names}
    assert {"log.cleaned", "index.cleaned", "log.swap", "index.swap", "log.deleted"} <= met
    assert isinstance(fresh_files(), VolatileFiles)
