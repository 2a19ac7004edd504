"""Stopping, starting twice, and dying while topics come and go."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

from clients.protocol.calls import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    create,
    fetch,
    fetch_body,
    fetch_topic,
    list_offset,
    metadata,
    produce,
)
from crash.load import Ledger, LoadProducer, judge
from harness.batches import decode_values, encode_batch
from harness.conditions import wait_until
from harness.process import BrokerProcess, free_port
from harness.raw import RawConnection, topic_id_of
from harness.topics import create_topic

StartBroker = Callable[..., BrokerProcess]
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)


def test_sigterm_ends_well_and_the_next_start_is_clean(start_broker: StartBroker) -> None:
    broker = start_broker(port=free_port())
    with RawConnection(broker.address) as raw:
        assert (
            create(raw, "kept", num_partitions=2, configs=[{"name": "retention.ms", "value": "777777777"}]).error_code
            == 0
        )
        assert produce(raw, "kept", encode_batch([b"a", b"b"])).base_offset == 0
        topic_id = topic_id_of(raw, "kept")
        cluster_id = metadata(raw, []).cluster_id
    assert not (broker.data_dir / CLEAN_SHUTDOWN).exists()
    assert broker.terminate() == 0, broker.stderr_text()
    assert (broker.data_dir / CLEAN_SHUTDOWN).exists()
    broker.start()
    # While it runs the marker is gone, so that a crash is seen as one.
    assert not (broker.data_dir / CLEAN_SHUTDOWN).exists()
    with RawConnection(broker.address) as raw:
        assert topic_id_of(raw, "kept") == topic_id
        assert metadata(raw, []).cluster_id == cluster_id
        assert decode_values(fetch(raw, "kept", 0).records) == [(0, b"a"), (1, b"b")]
        assert produce(raw, "kept", encode_batch([b"c"])).base_offset == 2


def test_sigterm_under_load_loses_and_doubles_nothing(start_broker: StartBroker) -> None:
    broker = start_broker(port=free_port())
    create_topic(broker.address, "load", 2)
    producers = [
        LoadProducer(broker.address, Ledger("load", partition, f"w{partition}", idempotent=True), acks="all")
        for partition in range(2)
    ]
    for producer in producers:
        producer.start()
    for _ in range(3):
        for producer in producers:
            producer.allow()
        before = [len(producer.ledger.acked) for producer in producers]
        wait_until(
            lambda before=before: all(
                len(one.ledger.acked) > count + 50 for one, count in zip(producers, before, strict=True)
            ),
            "some acknowledgements",
        )
        assert broker.terminate() == 0, broker.stderr_text()
        broker.start()
    for producer in producers:
        producer.finish()
    verdict = judge(broker.address, [producer.ledger for producer in producers])
    assert verdict.is_good(), str(verdict)


def test_sigterm_does_not_wait_for_long_polls(start_broker: StartBroker) -> None:
    """A consumer in a ten-minute poll is answered or cut off; the broker does not wait ten minutes for it."""
    broker = start_broker()
    with RawConnection(broker.address) as raw:
        create(raw, "quiet")
        raw.send(FETCH, 11, fetch_body([fetch_topic({"topic": "quiet"}, 0)], max_wait_ms=600_000))
        assert broker.terminate() == 0


def test_a_second_start_is_refused(start_broker: StartBroker, tmp_path: Path) -> None:
    first = start_broker()
    second = BrokerProcess(tmp_path / "second", data_dir=first.data_dir)
    process = second.spawn()
    try:
        assert process.wait(60) != 0
    finally:
        second.stop()
    said = second.stderr_text()
    assert str(first.running().pid) in said, said
    assert str(first.data_dir) in said, said
    assert "Traceback" not in said
    with RawConnection(first.address) as raw:
        assert create(raw, "still-served").error_code == 0


def test_a_killed_brokers_directory_is_free_again(start_broker: StartBroker) -> None:
    broker = start_broker()
    broker.kill()
    broker.start()
    assert broker.is_alive()


def test_idempotence_survives_sigkill(start_broker: StartBroker) -> None:
    """The producer's sequences are found again in the log: a retry after the crash is still a duplicate."""
    broker = start_broker(port=free_port())
    ids = {"producer_id": 4711, "producer_epoch": 0}
    with RawConnection(broker.address) as raw:
        create(raw, "t")
        for sequence in range(5):
            batch = encode_batch([b"%d" % sequence], base_sequence=sequence, **ids)
            assert produce(raw, "t", batch).base_offset == sequence
    broker.kill()
    broker.start()
    with RawConnection(broker.address) as raw:
        for sequence in range(5):
            answer = produce(raw, "t", encode_batch([b"%d" % sequence], base_sequence=sequence, **ids))
            assert (answer.error_code, answer.base_offset) == (0, sequence)
        assert produce(raw, "t", encode_batch([b"5"], base_sequence=5, **ids)).base_offset == 5
        assert produce(raw, "t", encode_batch([b"9"], base_sequence=9, **ids)).error_code == 45
        assert list_offset(raw, "t", -1).offset == 6


def test_producer_ids_are_not_given_twice_after_sigkill(start_broker: StartBroker) -> None:
    broker = start_broker(port=free_port())
    given: set[int] = set()
    for _ in range(3):
        with RawConnection(broker.address) as raw:
            body = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
            fresh = {int(raw.request(22, 4, body).producer_id) for _ in range(20)}
        assert len(fresh) == 20
        assert not fresh & given
        given |= fresh
        broker.kill()
        broker.start()


def test_log_start_offset_survives_sigkill(start_broker: StartBroker) -> None:
    broker = start_broker(port=free_port())
    with RawConnection(broker.address) as raw:
        create(raw, "t")
        for number in range(10):
            produce(raw, "t", encode_batch([b"%d" % number]))
        body = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 6}]}], "timeout": 30_000}
        assert raw.request(21, 2, body).topics[0].partitions[0].low_watermark == 6
    broker.kill()
    broker.start()
    with RawConnection(broker.address) as raw:
        assert list_offset(raw, "t", -2).offset == 6
        assert list_offset(raw, "t", -1).offset == 10
        assert fetch(raw, "t", 5).error_code == 1


def test_a_topic_deleted_and_made_again_is_empty_after_sigkill(start_broker: StartBroker) -> None:
    broker = start_broker(port=free_port())
    with RawConnection(broker.address) as raw:
        create(raw, "again")
        produce(raw, "again", encode_batch([b"old"]))
        old_id = topic_id_of(raw, "again")
        assert delete(raw, "again") == 0
        assert create(raw, "again").error_code == 0
        new_id = topic_id_of(raw, "again")
        assert new_id != old_id
        assert produce(raw, "again", encode_batch([b"new"])).base_offset == 0
    broker.kill()
    broker.start()
    with RawConnection(broker.address) as raw:
        assert topic_id_of(raw, "again") == new_id
        assert decode_values(fetch(raw, "again", 0).records) == [(0, b"new")]


def delete(raw: RawConnection, name: str) -> int:
    reply = raw.request(DELETE_TOPICS, 6, {"topics": [{"name": name, "topic_id": None}], "timeout": 30_000})
    return int(reply.responses[0].error_code)


class TopicChurn:
    """Creates and deletes topics without end; knows which exist, which are gone, and which one is in doubt."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.present: set[str] = set()
        self.gone: set[str] = set()
        self.doubtful: set[str] = set()
        self.answers = 0
        self.count = 0
        self._thread: threading.Thread | None = None

    def start(self, chance: random.Random) -> None:
        self._thread = threading.Thread(target=self._run, args=(chance,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(60)

    def _run(self, chance: random.Random) -> None:
        try:
            with RawConnection(self.address) as raw:
                while True:
                    self._step(raw, chance)
        except OSError:
            return  # the broker was killed

    def _step(self, raw: RawConnection, chance: random.Random) -> None:
        if self.present and chance.random() < 0.4:
            name = chance.choice(sorted(self.present))
            self.present.discard(name)
            self.doubtful.add(name)
            assert delete(raw, name) == 0
            self.gone.add(name)
        else:
            name = f"churn{self.count}"
            self.count += 1
            self.doubtful.add(name)
            topics = [{"name": name, "num_partitions": 3, "replication_factor": 1}]
            reply = raw.request(CREATE_TOPICS, 5, {"topics": topics, "timeout": 30_000})
            assert reply.topics[0].error_code == 0
            self.present.add(name)
        self.doubtful.discard(name)
        self.answers += 1


def test_killed_while_topics_come_and_go(start_broker: StartBroker) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    broker = start_broker(port=free_port())
    churn = TopicChurn(broker.address)
    for _ in range(5):
        churn.start(random.Random(chance.random()))
        target = churn.answers + chance.randrange(3, 25)
        wait_until(lambda target=target: churn.answers >= target, "topics made and deleted")
        broker.kill()
        churn.join()
        broker.start()
        with RawConnection(broker.address) as raw:
            settle(raw, churn)
    wait_until(lambda: not leftovers(broker.data_dir, churn), "no folders of topics that are gone")


def settle(raw: RawConnection, churn: TopicChurn) -> None:
    """Everything answered is as answered; what was in doubt is one or the other, whole."""
    found = {topic.name: topic for topic in metadata(raw, None).topics}
    assert churn.present <= set(found)
    assert not churn.gone & set(found)
    assert set(found) <= churn.present | churn.doubtful
    assert all(len(topic.partitions) == 3 for topic in found.values())
    for name in churn.doubtful:
        (churn.present if name in found else churn.gone).add(name)
    churn.doubtful.clear()
    for name in churn.present:
        answer = produce(raw, name, encode_batch([b"x"]), partition=2)
        assert answer.error_code == 0, (name, answer)


def leftovers(data_dir: Path, churn: TopicChurn) -> list[str]:
    """Folders that belong to no topic. One found after a crash is set aside as `-stray`, as Kafka does, and kept."""
    names = [path.name for path in data_dir.iterdir() if path.is_dir() and path.name.startswith("churn")]
    wanted = {f"{name}-{index}" for name in churn.present for index in range(3)}
    return [name for name in names if name not in wanted and not name.endswith("-stray")]
