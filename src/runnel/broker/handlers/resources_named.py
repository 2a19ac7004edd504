"""Config resources in requests: what they are called, who may touch them, and the rows that answer for them.

Kafka asks for the topic, for the group, or, for everything else, for the cluster. Only topics are asked for so far.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from runnel.broker.router import Body, Context
from runnel.core.metadata import ConfigOutcome, ConfigResource, ResourceType
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.services.node import Node

Change = TypeVar("Change")


def topics_among_resources(node: Node, request: Any) -> list[str]:
    return [resource.resource_name for resource in request.resources if resource.resource_type == ResourceType.TOPIC]


def is_denied(context: Context, resource: Any) -> bool:
    return resource.resource_type == ResourceType.TOPIC and resource.resource_name in context.denied


def resource_of(resource: Any) -> ConfigResource:
    return ConfigResource(resource.resource_type, resource.resource_name)


async def altered(
    context: Context,
    request: Any,
    changes_of: Callable[[Any], list[Change]],
    submit: Callable[[list[tuple[ConfigResource, list[Change]]], bool], Awaitable[Sequence[ConfigOutcome]]],
) -> Body:
    """Submit the changes of every resource that may be touched; one row per resource answers."""
    wanted = [
        (resource_of(resource), changes_of(resource))
        for resource in request.resources
        if not is_denied(context, resource)
    ]
    try:
        outcomes = list(await submit(wanted, request.validate_only))
    except Refusal as refusal:
        outcomes = [ConfigOutcome(resource, refusal.code, refusal.message) for resource, _ in wanted]
    outcomes += [
        ConfigOutcome(resource_of(resource), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for resource in request.resources
        if is_denied(context, resource)
    ]
    return {"responses": [_row(outcome) for outcome in outcomes]}


def _row(outcome: ConfigOutcome) -> Body:
    return {
        "error_code": outcome.code,
        "error_message": outcome.message,
        "resource_type": outcome.resource.type,
        "resource_name": outcome.resource.name,
    }
