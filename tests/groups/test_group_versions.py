"""The group APIs on the wire, in every version that Kafka advertises. Runs against Apache Kafka too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.conditions import wait_until
from harness.raw import RawConnection

JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE, OFFSET_DELETE = 11, 12, 13, 14, 15, 16, 42, 47
NONE, COORDINATOR_NOT_AVAILABLE, ILLEGAL_GENERATION, INVALID_GROUP_ID = 0, 15, 22, 24
UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT, INCONSISTENT_PROTOCOL = 25, 26, 23
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID = 68, 69, 79, 82
METADATA = b"\0\0\0\0\0\0\xff\xff\xff\xff"


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as connection:
        # Apache Kafka makes __consumer_offsets when it is first asked for a coordinator.
        wait_until(lambda: _finds_coordinator(connection), "a group coordinator")
        yield connection


def _finds_coordinator(connection: RawConnection) -> bool:
    found = connection.request(10, 4, {"key_type": 0, "coordinator_keys": ["g"]}).coordinators[0].error_code == NONE
    ready = connection.request(HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "x"}).error_code
    return found and ready == UNKNOWN_MEMBER_ID


def join(raw: RawConnection, version: int, group: str, member_id: str = "", **options: Any) -> Any:
    body = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": METADATA}],
    }
    return raw.request(JOIN, version, {**body, **options})


def sync(raw: RawConnection, version: int, group: str, joined: Any, **options: Any) -> Any:
    rows = [{"member_id": joined.member_id, "assignment": b"part"}]
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    body = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    return raw.request(SYNC, version, {**body, **named, "assignments": rows, **options})


@pytest.mark.parametrize("version", range(10))
def test_a_members_life(raw: RawConnection, new_name: Callable[[], str], version: int) -> None:
    """Version n of JoinGroup with the nth, or last, of the others."""
    group = new_name()
    joined = join(raw, version, group)
    if version >= 4:
        assert (joined.error_code, joined.generation_id) == (MEMBER_ID_REQUIRED, -1)
        joined = join(raw, version, group, joined.member_id)
    assert (joined.error_code, joined.generation_id) == (NONE, 1)
    assert joined.leader == joined.member_id
    assert joined.protocol_name == "range"
    assert [(row.member_id, row.metadata) for row in joined.members] == [(joined.member_id, METADATA)]
    synced = sync(raw, min(version, 5), group, joined)
    assert (synced.error_code, synced.assignment) == (NONE, b"part")
    beat = {"group_id": group, "generation_id": 1, "member_id": joined.member_id}
    assert raw.request(HEARTBEAT, min(version, 4), beat).error_code == NONE
    (described,) = raw.request(DESCRIBE, min(version, 6), {"groups": [group]}).groups
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    (member,) = described.members
    assert (member.client_id, member.client_host) == ("raw-test", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (METADATA, b"part")
    (listed,) = [g for g in raw.request(LIST, min(version, 5), {}).groups if g.group_id == group]
    assert listed.protocol_type == "consumer"
    delete = {"groups_names": [group, f"no-{group}"]}
    results = {r.group_id: r.error_code for r in raw.request(DELETE, min(version, 2), delete).results}
    assert results == {group: NON_EMPTY_GROUP, f"no-{group}": GROUP_ID_NOT_FOUND}
    leave_version = min(version, 5)
    leaving = {"members": [{"member_id": joined.member_id, "group_instance_id": None}]}
    left = raw.request(
        LEAVE,
        leave_version,
        {"group_id": group, **(leaving if leave_version >= 3 else {"member_id": joined.member_id})},
    )
    assert left.error_code == NONE
    assert all(row.error_code == NONE for row in getattr(left, "members", ()))
    results = {
        r.group_id: r.error_code for r in raw.request(DELETE, min(version, 2), {"groups_names": [group]}).results
    }
    assert results == {group: NONE}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group_id": ""}, INVALID_GROUP_ID),
        ({"session_timeout": 1}, INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, INCONSISTENT_PROTOCOL),
        ({"protocol_type": ""}, INCONSISTENT_PROTOCOL),
        ({"member_id": "stranger"}, UNKNOWN_MEMBER_ID),
    ],
)
def test_refused_joins(raw: RawConnection, new_name: Callable[[], str], options: dict[str, Any], code: int) -> None:
    reply = join(raw, 9, new_name(), **options)
    assert (reply.error_code, reply.generation_id, reply.leader) == (code, -1, "")
    assert reply.member_id == options.get("member_id", "")


def test_groups_that_do_not_exist(raw: RawConnection, new_name: Callable[[], str]) -> None:
    group = new_name()
    place = {"group_id": group, "generation_id": 1, "member_id": "x"}
    assert raw.request(HEARTBEAT, 4, place).error_code == UNKNOWN_MEMBER_ID
    assert raw.request(SYNC, 5, {**place, "protocol_type": "consumer", "protocol_name": "a"}).error_code == (
        UNKNOWN_MEMBER_ID
    )
    left = raw.request(LEAVE, 5, {"group_id": group, "members": [{"member_id": "x", "group_instance_id": None}]})
    assert (left.error_code, [row.error_code for row in left.members]) == (NONE, [UNKNOWN_MEMBER_ID])
    assert raw.request(LEAVE, 5, {"group_id": "", "members": []}).error_code == INVALID_GROUP_ID
    assert raw.request(LEAVE, 1, {"group_id": group, "member_id": "x"}).error_code == UNKNOWN_MEMBER_ID
    (old,) = raw.request(DESCRIBE, 5, {"groups": [group]}).groups
    assert (old.error_code, old.group_state) == (NONE, "Dead")
    (new,) = raw.request(DESCRIBE, 6, {"groups": [group]}).groups
    assert (new.error_code, new.group_state) == (GROUP_ID_NOT_FOUND, "Dead")
    assert raw.request(OFFSET_DELETE, 0, {"group_id": group}).error_code == GROUP_ID_NOT_FOUND
    commit = {"group_id": group, "generation_id_or_member_epoch": 3, "member_id": "x", "topics": []}
    assert raw.request(8, 9, commit).topics == ()


def test_listing_by_state_and_type(raw: RawConnection, new_name: Callable[[], str]) -> None:
    group = new_name()
    join(raw, 3, group)

    def listed(**filters: list[str]) -> list[tuple[str, str]]:
        rows = raw.request(LIST, 5, filters).groups
        return [(row.group_state, row.group_type) for row in rows if row.group_id == group]

    found = [("CompletingRebalance", "classic")]
    assert listed() == found
    assert listed(states_filter=["completingrebalance", "Stable"]) == found
    assert listed(states_filter=["Stable"]) == []
    assert listed(types_filter=["Classic"]) == found
    assert listed(types_filter=["consumer"]) == []


def test_a_static_members_old_self_is_fenced(raw: RawConnection, new_name: Callable[[], str]) -> None:
    group = new_name()
    first = join(raw, 9, group, group_instance_id="one")
    assert first.error_code == NONE
    sync(raw, 5, group, first, group_instance_id="one")
    second = join(raw, 9, group, group_instance_id="one")
    assert (second.error_code, second.generation_id, second.skip_assignment) == (NONE, 1, True)
    assert second.leader == second.member_id
    old = {"group_id": group, "generation_id": 1, "member_id": first.member_id, "group_instance_id": "one"}
    assert raw.request(HEARTBEAT, 4, old).error_code == FENCED_INSTANCE_ID
    assert sync(raw, 5, group, second, group_instance_id="one", assignments=[]).assignment == b"part"
    third = join(raw, 5, group, group_instance_id="one")
    assert (third.leader, third.members) == (second.member_id, ())
