"""Compacted topics as clients see them: the newest value of each key, at the offset it always had, whatever happens."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from clients.compacted import (
    BASE_MS,
    NULL_KEY_MESSAGE,
    SEGMENT_MS,
    SETTINGS,
    batches,
    keyed,
    make_topic,
    put,
    roll,
    wait_for_cleaner,
)
from clients.drivers import CLIENTS, load_driver
from clients.protocol.calls import create, list_offset, produce
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.raw import RawConnection
from runnel.wire.batch import assemble, encode_batch, read_header

StartBroker = Callable[..., BrokerProcess]
INVALID_RECORD, OUT_OF_ORDER = 87, 45


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, broker_process: BrokerProcess | None) -> BrokerProcess:
    if broker_process is None:
        pytest.skip("needs a broker process of its own")
    started = BrokerProcess(tmp_path_factory.mktemp("compacting"), settings=SETTINGS).start()
    yield started
    started.stop()


# --- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client_name", CLIENTS)
def test_every_client_reads_the_newest_values_and_steps_over_the_gaps(broker: BrokerProcess, client_name: str) -> None:
    topic = f"read-by-{client_name}"
    client = load_driver(client_name, broker.address)
    with RawConnection(broker.address) as raw:
        make_topic(raw, topic)
        for turn in range(30):
            pairs = [(b"key-%d" % key, b"%d" % turn) for key in range(8)]
            put(raw, topic, pairs[:4], BASE_MS + turn, compression=turn % 5)
            put(raw, topic, pairs[4:], BASE_MS + turn)
        put(raw, topic, [(b"key-0", None)])
        end = roll(raw, topic, BASE_MS)
        wait_for_cleaner(broker.data_dir, topic, end)
    expected = [(232 + key, b"key-%d" % key, b"29") for key in range(1, 8)]
    expected += [(240, b"key-0", None), (end, b"last", b"")]
    assert [(r.offset, r.key, r.value) for r in client.consume(topic, len(expected))] == expected
    assert [r.offset for r in client.consume(topic, 3, start=100)] == [233, 234, 235], "from inside a gap"
    assert client.watermarks(topic) == (0, end + 1)


def test_times_are_found_after_compaction(broker: BrokerProcess) -> None:
    with RawConnection(broker.address) as raw:
        make_topic(raw, "times")
        for number in range(40):
            put(raw, "times", [(b"key-%d" % (number % 4), b"x" * 200)], BASE_MS + number * 100)
        end = roll(raw, "times", BASE_MS)
        wait_for_cleaner(broker.data_dir, "times", end)
        assert list_offset(raw, "times", BASE_MS).offset == 36
        assert list_offset(raw, "times", BASE_MS + 3701).offset == 38
        assert list_offset(raw, "times", BASE_MS + 3901).offset == end
        assert (list_offset(raw, "times", -2).offset, list_offset(raw, "times", -1).offset) == (0, end + 1)
        found = list_offset(raw, "times", -3, version=7)
        assert (found.offset, found.timestamp) == (end, BASE_MS + 2 * SEGMENT_MS)


def test_readers_go_on_while_the_log_is_compacted_again_and_again(start_broker: StartBroker) -> None:
    """Every reading sees each key, and never an older value than the reading before."""
    broker = start_broker(SETTINGS)
    with RawConnection(broker.address) as raw:
        make_topic(raw, "t")
        put(raw, "t", [(b"key-%d" % key, b"0") for key in range(20)])
        stop, failures = threading.Event(), []

        def read_for_ever() -> None:
            seen: dict[bytes | None, int] = {}
            try:
                with RawConnection(broker.address) as own:
                    while not stop.is_set():
                        values = {each.key: int(each.value or b"0") for each in batches(own, "t")[1]}
                        assert len(values) >= 20
                        assert all(values[key] >= value for key, value in seen.items())
                        seen = values
            except BaseException as failure:
                failures.append(failure)
                raise

        readers = [threading.Thread(target=read_for_ever) for _ in range(3)]
        for reader in readers:
            reader.start()
        clean = 0
        for number in range(1, 400):
            pairs = [(b"key-%d" % random.randrange(20), b"%d" % number) for _ in range(5)]
            clean = put(raw, "t", pairs, BASE_MS + number * SEGMENT_MS // 3)
        wait_for_cleaner(broker.data_dir, "t", clean // 2)
        stop.set()
        for reader in readers:
            reader.join()
    assert not failures


# --- producing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_records_without_a_key_are_refused_as_kafka_refuses_them(
    broker: BrokerProcess, codec: int, policy: str
) -> None:
    topic = f"keys-{codec}-{policy.count(',')}"
    with RawConnection(broker.address) as raw:
        make_topic(raw, topic, cleanup_policy=policy)
        pairs = [(b"a", b"1"), (None, b"2"), (b"", b"3"), (None, None), (None, b""), (b"b", None), (None, b"x" * 99)]
        reply = produce(raw, topic, keyed(pairs, compression=codec))
        assert (reply.error_code, reply.base_offset, reply.log_start_offset) == (INVALID_RECORD, -1, 0)
        message = f"{NULL_KEY_MESSAGE} {topic}-0"
        errors = [(row.batch_index, row.batch_index_error_message) for row in reply.record_errors]
        assert errors == [(number, message) for number in (1, 3, 4, 6)]
        shown = ", ".join(f"RecordError(batchIndex={number}, message='{message}')" for number in (1, 3, 4))
        assert reply.error_message == (
            "One or more records have been rejected due to 4 record errors in total, and only showing the first "
            f"three errors at most: [{shown}]"
        )
        assert produce(raw, topic, keyed(pairs, compression=codec), version=7).error_code == INVALID_RECORD
        assert list_offset(raw, topic, -1).offset == 0, "nothing of the batch was taken"
        assert put(raw, topic, [(b"", b"an empty key is a key")], compression=codec) == 0


def test_batches_that_cannot_be_opened_are_refused(broker: BrokerProcess) -> None:
    with RawConnection(broker.address) as raw:
        make_topic(raw, "opened")
        good = encode_batch([(BASE_MS, b"a", b"1", ()), (BASE_MS, b"b", b"1", ())])
        header = read_header(good)
        too_many = assemble(header._replace(record_count=3, last_offset_delta=2), good[61:])
        bomb = encode_batch([(BASE_MS, b"k", bytes(40 << 20), ())], compression=4)
        many = [(BASE_MS, b"k", None, ())] * 200_001
        for batch in (too_many, bomb, encode_batch(many, compression=4)):
            reply = produce(raw, "opened", bytes(batch))
            assert reply.error_code == INVALID_RECORD
            assert reply.error_message
        assert list_offset(raw, "opened", -1).offset == 0
        assert create(raw, "plain").error_code == 0
        assert produce(raw, "plain", bytes(bomb)).error_code == 0, "other topics are not opened"


def test_an_idempotent_producer_goes_on_over_compaction_and_a_crash(start_broker: StartBroker) -> None:
    broker = start_broker(SETTINGS, port=0)
    with RawConnection(broker.address) as raw:
        make_topic(raw, "t")
        sent = [
            keyed([(b"a", b"%d" % number)], BASE_MS, producer_id=77, producer_epoch=0, base_sequence=number)
            for number in range(8)
        ]
        assert [produce(raw, "t", batch).base_offset for batch in sent[:7]] == list(range(7))
        put(raw, "t", [(b"a", b"of another")])
        end = roll(raw, "t", BASE_MS)
        wait_for_cleaner(broker.data_dir, "t", end)
        assert [each.offset for each in batches(raw, "t")[1]] == [7, 8]
    broker.kill()
    broker.start()
    with RawConnection(broker.address) as raw:
        for number in range(2, 7):
            retried = produce(raw, "t", sent[number])
            assert (retried.error_code, retried.base_offset) == (0, number), "a duplicate of one of the last five"
        gap = keyed([(b"a", b"")], BASE_MS, producer_id=77, producer_epoch=0, base_sequence=9)
        assert produce(raw, "t", gap).error_code == OUT_OF_ORDER
        assert produce(raw, "t", sent[7]).base_offset == end + 1


# --- crashes ------------------------------------------------------------------------------------------------------


def test_a_broker_killed_while_it_compacts_loses_nothing_and_leaves_no_process(start_broker: StartBroker) -> None:
    broker = start_broker({**SETTINGS, "log.cleaner.io.max.bytes.per.second": 300_000})
    expected: dict[bytes, bytes] = {}
    with RawConnection(broker.address) as raw:
        make_topic(raw, "t")
    for turn in range(3):
        with RawConnection(broker.address) as raw:
            for number in range(60):
                pairs = [(b"key-%d" % random.randrange(50), b"%d-%d" % (turn, number) + b"x" * 500) for _ in range(20)]
                put(raw, "t", pairs, BASE_MS + (turn * 60 + number) * SEGMENT_MS // 5)
                expected.update(pairs)
        (child,) = wait_until(lambda: psutil.Process(broker.running().pid).children(), "a round is under way")
        broker.kill()
        child.wait(30)  # it ends by itself
        broker.start()
        with RawConnection(broker.address) as raw:
            assert {each.key: each.value for each in batches(raw, "t")[1]} == expected
    names = [path.name for path in (broker.data_dir / "t-0").iterdir()]
    assert not [name for name in names if name.endswith(".swap")]


# --- the offsets of groups ----------------------------------------------------------------------------------------


RECORD_BYTES = 60
"""An offset commit takes more than that in the log."""


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def test_consumer_offsets_shrink_and_load_the_same(start_broker: StartBroker) -> None:
    settings = {**SETTINGS, "offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 1 << 20}
    broker = start_broker(settings)
    partitions, commits = 200, 150
    with RawConnection(broker.address) as raw:
        assert create(raw, "t", num_partitions=partitions).error_code == 0
        raw.request(10, 3, {"key": "g", "key_type": 0})
        for offset in range(1, commits + 1):
            commit(raw, partitions, offset)
        folder = broker.data_dir / "__consumer_offsets-0"
        written = list_offset(raw, "__consumer_offsets", -1).offset
        assert written >= partitions * commits
        wait_until(lambda: folder_bytes(folder) < written * RECORD_BYTES // 2, "the offsets topic shrinks")
        before = committed(raw, partitions)
    assert set(before) == {commits}
    broker.kill()
    broker.start()
    with RawConnection(broker.address) as raw:
        assert committed(raw, partitions) == before


def commit(raw: RawConnection, partitions: int, offset: int) -> None:
    rows = [{"partition_index": index, "committed_offset": offset} for index in range(partitions)]
    body = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": [{"name": "t", "partitions": rows}]}
    reply = raw.request(8, 5, body)
    assert {row.error_code for row in reply.topics[0].partitions} == {0}


def committed(raw: RawConnection, partitions: int) -> list[int]:
    asked = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": list(range(partitions))}]}
    return [row.committed_offset for row in raw.request(9, 5, asked).topics[0].partitions]


def test_the_figures_of_a_round_are_told(broker: BrokerProcess) -> None:
    with RawConnection(broker.address) as raw:
        make_topic(raw, "told")
        put(raw, "told", [(b"a", b"1"), (b"a", b"2")])
        wait_for_cleaner(broker.data_dir, "told", roll(raw, "told", BASE_MS))
    line = wait_until(lambda: [row for row in broker.stderr_text().splitlines() if "told-0" in row], "the line")[0]
    assert "compacted told-0 up to offset 2" in line
    assert "1 of 2 records" in line
