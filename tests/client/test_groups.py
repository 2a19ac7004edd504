"""Groups as older brokers tell of them, and coordinators that move: by a broker that plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from client.scripted import Answer, Ranges, answering, scripted_server
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.groups import (
    GroupView,
    commit_offsets,
    committed_offsets,
    delete_groups,
    describe_groups,
    list_groups,
)
from runnel.client.metadata import TopicPartition
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

Result = TypeVar("Result")
TARGET = TopicPartition("orders", 0)


def ask(ranges: Ranges, answers: dict[ApiKey, Answer], work: Callable[[Cluster], Awaitable[Result]]) -> Result:
    """Work against a broker with these APIs; Metadata and FindCoordinator are answered with the broker itself."""

    async def session() -> Result:
        here: dict[str, Any] = {}
        metadata = {"brokers": [here], "controller_id": 1, "cluster_id": "c", "topics": []}
        found = {"error_code": 0, "node_id": 1, "coordinators": [{"key": "g", "node_id": 1, "error_code": 0}]}
        known = {ApiKey.METADATA: metadata, ApiKey.FIND_COORDINATOR: found, **answers}
        async with scripted_server(answering({ApiKey.METADATA: (0, 8), **ranges}, known)) as address:
            here |= {"node_id": 1, "host": address.host, "port": address.port}
            async with Cluster(str(address), timeout_s=5) as cluster:
                return await work(cluster)

    return asyncio.run(session())


def described(state: str, code: int = 0) -> dict[str, Any]:
    row = {
        "error_code": code,
        "group_id": "g",
        "group_state": state,
        "protocol_type": "consumer",
        "protocol_data": "range",
    }
    return {"groups": [{**row, "members": []}]}


OLD_GROUPS: Ranges = {ApiKey.FIND_COORDINATOR: (0, 2), ApiKey.DESCRIBE_GROUPS: (0, 4)}
NEW_GROUPS: Ranges = {
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
}


async def describe_g(cluster: Cluster) -> GroupView | ClientError:
    return (await describe_groups(cluster, ["g"]))["g"]


def test_an_older_broker_calls_a_missing_group_dead() -> None:
    view = ask(OLD_GROUPS, {ApiKey.DESCRIBE_GROUPS: described("Stable")}, describe_g)
    assert isinstance(view, GroupView)
    assert (view.type, view.state, view.assignor, view.is_idle) == ("classic", "Stable", "range", False)
    missing = ask(OLD_GROUPS, {ApiKey.DESCRIBE_GROUPS: described("Dead")}, describe_g)
    assert isinstance(missing, ClientError)
    assert missing.message == "group 'g' does not exist; `runnel group list` shows what does"


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION])
def test_what_the_next_generation_does_not_know_may_be_classic(code: ErrorCode) -> None:
    unknown = {"groups": [{"error_code": code, "group_id": "g", "group_state": "", "assignor_name": "", "members": []}]}
    answers: dict[ApiKey, Answer] = {
        ApiKey.CONSUMER_GROUP_DESCRIBE: unknown,
        ApiKey.DESCRIBE_GROUPS: described("Empty"),
    }
    view = ask(NEW_GROUPS, answers, describe_g)
    assert isinstance(view, GroupView)
    assert (view.type, view.is_idle) == ("classic", True)


def test_a_share_group_is_not_called_missing() -> None:
    unknown = {"groups": [{"error_code": 69, "group_id": "g", "group_state": "", "assignor_name": "", "members": []}]}
    listed = {"group_id": "g", "protocol_type": "share", "group_state": "Stable", "group_type": "share"}
    answers: dict[ApiKey, Answer] = {
        ApiKey.CONSUMER_GROUP_DESCRIBE: unknown,
        ApiKey.DESCRIBE_GROUPS: described("", ErrorCode.GROUP_ID_NOT_FOUND),
        ApiKey.LIST_GROUPS: {"error_code": 0, "groups": [listed]},
    }
    error = ask({**NEW_GROUPS, ApiKey.LIST_GROUPS: (0, 5)}, answers, describe_g)
    assert isinstance(error, ClientError)
    assert error.message.startswith("group 'g' is a share group")


def test_other_errors_are_told() -> None:
    refused = {"groups": [{"error_code": 30, "group_id": "g", "group_state": "", "assignor_name": "", "members": []}]}
    error = ask(NEW_GROUPS, {ApiKey.CONSUMER_GROUP_DESCRIBE: refused}, describe_g)
    assert isinstance(error, ClientError)
    assert error.message == "not allowed to use group 'g'; ask for an ACL on it"


@pytest.mark.parametrize("version", [2, 7, 9, 10])
def test_offsets_in_any_version(version: int) -> None:
    """Before 8 a request is about one group; from 10 on topics go by id, which is not used here."""
    partition = {
        "partition_index": 0,
        "committed_offset": 5,
        "committed_leader_epoch": -1,
        "metadata": "m",
        "error_code": 0,
    }
    never = {**partition, "partition_index": 1, "committed_offset": -1}
    topics = [{"name": "orders", "partitions": [partition, never]}]
    answer = {"topics": topics, "error_code": 0, "groups": [{"group_id": "g", "topics": topics, "error_code": 0}]}
    ranges: Ranges = {ApiKey.FIND_COORDINATOR: (0, 4), ApiKey.OFFSET_FETCH: (0, version)}
    found = ask(ranges, {ApiKey.OFFSET_FETCH: answer}, lambda cluster: committed_offsets(cluster, "g"))
    assert {target: committed.offset for target, committed in found.items()} == {TARGET: 5}
    assert found[TARGET].metadata == "m"


def test_a_coordinator_that_moves_is_looked_up_again() -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    lookups: list[str] = []

    def find(request: Struct) -> dict[str, Any]:
        lookups.append(request.coordinator_keys[0])
        return {"coordinators": [{"key": "g", "node_id": 1, "error_code": 0}]}

    def commit(request: Struct) -> dict[str, Any]:
        assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == ("g", "", -1)
        return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": codes.pop(0)}]}]}

    ranges: Ranges = {ApiKey.FIND_COORDINATOR: (0, 4), ApiKey.OFFSET_COMMIT: (2, 10)}
    answers: dict[ApiKey, Answer] = {ApiKey.FIND_COORDINATOR: find, ApiKey.OFFSET_COMMIT: commit}
    done = ask(ranges, answers, lambda cluster: commit_offsets(cluster, "g", {TARGET: 3}))
    assert done == {TARGET: None}
    assert (codes, lookups) == ([], ["g", "g", "g"])


def test_a_commit_to_a_living_group_says_what_to_do() -> None:
    rows = [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": ErrorCode.UNKNOWN_MEMBER_ID}]}]
    ranges: Ranges = {ApiKey.FIND_COORDINATOR: (0, 4), ApiKey.OFFSET_COMMIT: (2, 8)}
    done = ask(
        ranges, {ApiKey.OFFSET_COMMIT: {"topics": rows}}, lambda cluster: commit_offsets(cluster, "g", {TARGET: 3})
    )
    error = done[TARGET]
    assert error is not None
    assert "the group has live members" in error.message
    assert "stop its consumers first" in error.message


def test_deleting_is_asked_again_only_for_what_was_not_settled() -> None:
    asked: list[list[str]] = []
    codes = {"a": [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE], "b": [ErrorCode.NON_EMPTY_GROUP]}

    def delete(request: Struct) -> dict[str, Any]:
        asked.append(list(request.groups_names))
        return {"results": [{"group_id": name, "error_code": codes[name].pop(0)} for name in request.groups_names]}

    ranges: Ranges = {ApiKey.FIND_COORDINATOR: (0, 4), ApiKey.DELETE_GROUPS: (0, 2)}
    outcomes = ask(ranges, {ApiKey.DELETE_GROUPS: delete}, lambda cluster: delete_groups(cluster, ["a", "b"]))
    assert asked == [["a", "b"], ["a"]]
    assert outcomes[0].error is None
    assert outcomes[1].error is not None
    assert outcomes[1].error.code is ErrorCode.NON_EMPTY_GROUP


def test_a_broker_without_the_api_is_told_so() -> None:
    with pytest.raises(ClientError, match=r"does not offer the API LIST_GROUPS \(16\), which this command needs"):
        ask({}, {}, list_groups)
