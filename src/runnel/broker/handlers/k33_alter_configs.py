"""AlterConfigs (key 33).

Versions 0–2: replaces all overrides of a topic, broker, group or client metrics subscription at once; validate_only.
Clients should use IncrementalAlterConfigs (KIP-339).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.resources_named import altered, topics_among_resources
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey


async def handle(context: Context, request: Any) -> Body:
    return await altered(context, request, _changes, context.node.configs.replace)


def _changes(resource: Any) -> list[tuple[str, str | None]]:
    return [(config.name, config.value) for config in resource.configs]


API = Api(ApiKey.ALTER_CONFIGS, handle, Access("ALTER_CONFIGS", "TOPIC", topics_among_resources))
