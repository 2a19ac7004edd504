"""Which permission each admin API asks for, in Kafka's words, and what it answers without it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from harness.raw import encode_body
from runnel.broker.apis import APIS as SERVED
from runnel.broker.router import Context
from runnel.services.node import Node
from runnel.wire import messages
from runnel.wire.frames import RequestHeader

CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED = 31, 29
APIS = {int(api.key): api for api in SERVED}

# API key: operation and resource that Apache Kafka's authorizer is asked for, and a request to be denied.
ASKED: dict[int, tuple[str, str, int, dict[str, Any]]] = {
    34: ("ALTER", "CLUSTER", 2, {"dirs": [{"path": "/x", "topics": [{"name": "t", "partitions": [0]}]}]}),
    43: ("ALTER", "CLUSTER", 2, {"topic_partitions": [{"topic": "t", "partitions": [0]}]}),
    45: ("ALTER", "CLUSTER", 1, {"topics": []}),
    46: ("DESCRIBE", "CLUSTER", 0, {"topics": None}),
    48: ("DESCRIBE_CONFIGS", "CLUSTER", 1, {"components": []}),
    49: ("ALTER_CONFIGS", "CLUSTER", 1, {"entries": [{"entity": [], "ops": []}]}),
    50: ("DESCRIBE", "CLUSTER", 0, {"users": None}),
    51: ("ALTER", "CLUSTER", 0, {"deletions": [{"name": "u", "mechanism": 1}], "upsertions": []}),
    55: ("DESCRIBE", "CLUSTER", 2, {"topics": []}),
    57: ("ALTER", "CLUSTER", 2, {"feature_updates": []}),
    61: ("READ", "TOPIC", 0, {"topics": [{"name": "t", "partition_indexes": [0]}]}),
    74: ("DESCRIBE_CONFIGS", "CLUSTER", 1, {"resource_types": []}),
}


def codes(body: Any) -> set[int]:
    """Every error code of a reply, however deep."""
    found: set[int] = set()
    if isinstance(body, dict):
        found |= {int(body["error_code"])} if "error_code" in body else set()
        found |= {code for value in body.values() for code in codes(value)}
    elif isinstance(body, list | tuple):
        found |= {code for value in body for code in codes(value)}
    return found


@pytest.mark.parametrize("key", ASKED)
def test_who_may_not_is_told_so(key: int) -> None:
    operation, resource, version, body = ASKED[key]
    api = APIS[key]
    assert (api.access.operation, api.access.resource) == (operation, resource)

    async def scenario() -> None:
        node = await Node.start(None, {}, 16)
        try:
            request = messages.decode_request(key, version, memoryview(encode_body(key, version, body)))
            names = frozenset(api.access.names(node, request) if api.access.names else ("",))
            header = RequestHeader(key, version, 1, "client")
            answer = api.handle(Context(header, None, node, names), request)  # type: ignore[arg-type]
            before = node.image
            reply: Any = await answer if inspect.isawaitable(answer) else answer
            expected = TOPIC_AUTHORIZATION_FAILED if resource == "TOPIC" else CLUSTER_AUTHORIZATION_FAILED
            assert codes(reply) == {expected}
            assert node.image is before
            assert messages.encode_response(key, version, reply)
        finally:
            await node.stop()

    asyncio.run(scenario())
