"""What an answer of the coordinator promises when the disk does not keep its promises, and when the broker stops."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from groups.test_group_versions import join, sync
from harness.conditions import wait_until
from harness.raw import RawConnection, decode_reply
from runnel import Broker
from runnel.services.groups import OFFSETS_TOPIC, partition_of
from runnel.testing.faults import FaultyFiles

NONE, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 0, 15, 16


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def commit(raw: RawConnection, offset: int, group: str = "g") -> int:
    rows = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    body = {"group_id": group, "topics": [{"name": "t", "partitions": rows}], "generation_id_or_member_epoch": -1}
    code: int = raw.request(8, 8, body).topics[0].partitions[0].error_code
    return code


def fetch(raw: RawConnection, group: str = "g") -> tuple[int, int]:
    """The error code and the committed offset."""
    reply = raw.request(9, 5, {"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]})
    offsets = [p.committed_offset for topic in reply.topics for p in topic.partitions]
    return reply.error_code, offsets[0] if offsets else -1


def log_of(group: str) -> str:
    return f"{OFFSETS_TOPIC}-{partition_of(group, 50)}/000"


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("g", 3),
        ("", 0),
        ("console-consumer-12345", 6),
        ("müller-\U0001f600", 14),
        ("hello-world", 31),  # its hash code is negative
        ("polygenelubricants", 0),  # and this one's is the least int, which has no positive
    ],
)
def test_groups_live_where_kafkas_tools_look_for_them(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition


def test_a_commit_whose_fsync_fails_is_not_acknowledged(files: FaultyFiles) -> None:
    with Broker(files=files) as broker, RawConnection(broker.bootstrap_servers) as raw:
        broker.create_topic("t")
        assert commit(raw, 1) == commit(raw, 1, "other") == NONE
        files.fail("sync", error=errno.EIO, path_contains=log_of("g"))
        assert [commit(raw, 2), commit(raw, 3)] == [NOT_COORDINATOR] * 2, "and the log stays offline"
        assert fetch(raw) == (NOT_COORDINATOR, -1)
        assert commit(raw, 2, "other") == NONE
        assert fetch(raw, "other") == (NONE, 2)


def test_a_full_disk_refuses_commits_until_there_is_space(files: FaultyFiles) -> None:
    with Broker(files=files) as broker, RawConnection(broker.bootstrap_servers) as raw:
        broker.create_topic("t")
        assert commit(raw, 1) == NONE
        files.fail("write", error=errno.ENOSPC, path_contains=log_of("g"), times=1)
        assert commit(raw, 2) == NOT_COORDINATOR
        assert fetch(raw) == (NONE, 1), "loaded anew from what the log kept"
        assert commit(raw, 3) == NONE
        assert fetch(raw) == (NONE, 3)


def test_a_generation_that_cannot_be_logged_is_not_handed_out(files: FaultyFiles) -> None:
    with Broker(files=files) as broker, RawConnection(broker.bootstrap_servers) as raw:
        joined = join(raw, 3, "g")
        assert joined.error_code == NONE
        files.fail("write", error=errno.ENOSPC, path_contains=log_of("g"), times=1)
        assert sync(raw, 3, "g", joined).error_code == NOT_COORDINATOR
        again = join(raw, 3, "g")
        assert (again.error_code, sync(raw, 3, "g", again).assignment) == (NONE, b"part")


def test_a_broker_that_stops_answers_who_waits_in_a_rebalance() -> None:
    with Broker() as broker, RawConnection(broker.bootstrap_servers) as raw:
        first = join(raw, 3, "g")
        sync(raw, 3, "g", first)
        with RawConnection(broker.bootstrap_servers) as other:
            body: dict[str, Any] = {
                "group_id": "g",
                "session_timeout": 60_000,
                "rebalance_timeout": 600_000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            }
            other.send(11, 3, body)
            beat = {"group_id": "g", "generation_id": 1, "member_id": first.member_id}
            wait_until(lambda: raw.request(12, 3, beat).error_code != NONE, "the join to be parked")
            broker.stop()
            _, reply = decode_reply(11, 3, other.receive())
            assert reply.error_code == COORDINATOR_NOT_AVAILABLE
