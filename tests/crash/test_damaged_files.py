"""What a crash or a careless hand leaves in the data directory: repaired, or refused aloud; never served as good."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.protocol.calls import create, fetch, list_offset, produce
from harness.batches import decode_values, encode_batch
from harness.process import BrokerProcess, free_port
from harness.raw import RawConnection

StartBroker = Callable[..., BrokerProcess]
SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
SMALL = [{"name": "segment.bytes", "value": "1048576"}, {"name": "index.interval.bytes", "value": "1024"}]
BATCHES = 400
BASE_MS = 1_700_000_000_000


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker with one topic of several segments: 400 batches of 9 KB, three records each."""
    started = start_broker(port=free_port())
    with RawConnection(started.address) as raw:
        assert create(raw, "t", configs=SMALL).error_code == 0
        for number in range(BATCHES):
            batch = encode_batch([content(3 * number + index) for index in range(3)], timestamp_ms=BASE_MS + 3 * number)
            assert produce(raw, "t", batch, acks=1).base_offset == 3 * number
    return started


def content(number: int) -> bytes:
    return b"%d " % number * 800


def folder(broker: BrokerProcess) -> Path:
    return broker.data_dir / "t-0"


def segments(broker: BrokerProcess) -> list[Path]:
    return sorted(folder(broker).glob("*.log"))


def check_whole(broker: BrokerProcess, end: int = 3 * BATCHES) -> None:
    """Every record up to `end` can be read from its own offset, found by its time, and the log goes on."""
    with RawConnection(broker.address) as raw:
        assert list_offset(raw, "t", -1).offset == end
        offset = 0
        while offset < end:
            values = [pair for pair in decode_values(fetch(raw, "t", offset).records) if pair[0] >= offset]
            assert values == [(offset + i, content(offset + i)) for i in range(len(values))]
            assert values, f"nothing at {offset}"
            offset += len(values)
        for number in range(0, end, 97):
            assert list_offset(raw, "t", BASE_MS + number).offset == number
        assert produce(raw, "t", encode_batch([b"next"], timestamp_ms=BASE_MS + end)).base_offset == end


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("kinds", [("index",), ("timeindex",), ("index", "timeindex", "snapshot")], ids="+".join)
def test_missing_indexes_are_built_again(broker: BrokerProcess, clean: bool, kinds: tuple[str, ...]) -> None:
    broker.terminate() if clean else broker.kill()
    assert len(segments(broker)) >= 3
    for kind in kinds:
        for path in folder(broker).glob(f"*.{kind}"):
            path.unlink()
    broker.start()
    check_whole(broker)


@pytest.mark.parametrize("junk", ["empty", "noise", "cut", "zeros"])
def test_wrong_indexes_are_built_again(broker: BrokerProcess, junk: str) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    broker.kill()
    for path in [*folder(broker).glob("*.index"), *folder(broker).glob("*.timeindex")]:
        size = path.stat().st_size
        data = {"empty": b"", "noise": random.Random(SEED).randbytes(size), "zeros": b"\0" * size}
        path.write_bytes(data.get(junk, path.read_bytes()[: size - 3]))
    broker.start()
    check_whole(broker)


@pytest.mark.parametrize("tail", ["noise", "zeros", "half a batch", "a batch with a bad crc"])
def test_a_torn_tail_is_cut(broker: BrokerProcess, tail: str) -> None:
    """What follows the last good batch goes; not one record before it."""
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    broker.kill()
    batch = encode_batch([b"torn"] * 3)
    extra = {
        "noise": random.Random(SEED).randbytes(5000),
        "zeros": b"\0" * 5000,
        "half a batch": batch[: len(batch) // 2],
        "a batch with a bad crc": batch[:-1] + b"\xff",
    }[tail]
    with segments(broker)[-1].open("ab") as log:
        log.write(extra)
    broker.start()
    check_whole(broker)


def test_a_log_cut_at_any_byte(broker: BrokerProcess) -> None:
    """A crash of the machine may lose the end of what was never synced: whole batches remain, and no more."""
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    end = 3 * BATCHES
    for _ in range(5):
        broker.kill()
        last = segments(broker)[-1]
        size = last.stat().st_size
        if size == 0:
            break
        os.truncate(last, chance.randrange(max(0, size - 30_000), size))
        broker.start()
        with RawConnection(broker.address) as raw:
            now = list_offset(raw, "t", -1).offset
            assert now < end
            assert now % 3 == 0
            values = [pair for pair in decode_values(fetch(raw, "t", now - 3).records) if pair[0] >= now - 3]
            assert values == [(number, content(number)) for number in range(now - 3, now)]
        end = now
    check_whole(broker, end)


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
)
@pytest.mark.parametrize("damage", ["missing", "empty", "noise"])
def test_checkpoints_may_be_lost(broker: BrokerProcess, name: str, damage: str) -> None:
    broker.terminate()
    path = broker.data_dir / name
    if damage == "missing":
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(b"" if damage == "empty" else b"\xff\x00 not a checkpoint \n\n")
    broker.start()
    check_whole(broker)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_small_files_of_a_partition_may_be_lost(broker: BrokerProcess, clean: bool) -> None:
    broker.terminate() if clean else broker.kill()
    (folder(broker) / "leader-epoch-checkpoint").unlink(missing_ok=True)
    for path in folder(broker).glob("*.snapshot"):
        path.write_bytes(b"not a snapshot")
    broker.start()
    check_whole(broker)


def test_a_flipped_bit_is_never_served_as_good(broker: BrokerProcess) -> None:
    """In a sealed segment, after a clean stop: found by whoever checks the CRC, and the rest stays readable."""
    broker.terminate()
    first = segments(broker)[0]
    data = bytearray(first.read_bytes())
    position = 0
    for _ in range(20):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    data[position + 1000] ^= 0x10  # in the records of the 21st batch: under its CRC
    first.write_bytes(bytes(data))
    broker.start()
    with RawConnection(broker.address) as raw:
        assert list_offset(raw, "t", -1).offset == 3 * BATCHES
        offset, refused = 0, False
        while offset < 3 * BATCHES:
            answer = fetch(raw, "t", offset, partition_max_bytes=100)
            try:
                values = [pair for pair in decode_values(answer.records) if pair[0] >= offset]
            except AssertionError:  # the CRC does not hold: a client would refuse this batch
                refused, offset = True, offset + 3
                continue
            if answer.error_code != 0:
                refused, offset = True, offset + 3
                continue
            assert values == [(offset + i, content(offset + i)) for i in range(len(values))]
            offset += max(len(values), 1)
        assert refused


def test_a_directory_of_another_broker_is_refused(broker: BrokerProcess) -> None:
    """meta.properties belongs to the data: a broker that cannot read it does not start over it."""
    broker.terminate()
    (broker.data_dir / "meta.properties").write_bytes(b"\x00\xffnonsense")
    process = broker.spawn()
    try:
        assert process.wait(60) != 0
        assert "meta.properties" in broker.stderr_text()
        assert "Traceback" not in broker.stderr_text()
    finally:
        broker.stop()
    assert segments(broker), "the data are still there"
