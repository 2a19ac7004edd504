"""IncrementalAlterConfigs (key 44).

Versions 0–1 (KIP-339): set, delete, append and subtract single overrides of topics, brokers, groups and client
metrics subscriptions, and levels of this broker's loggers (KIP-412); validate_only.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.resources_named import altered, topics_among_resources
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import ConfigChange
from runnel.wire.apis import ApiKey


async def handle(context: Context, request: Any) -> Body:
    return await altered(context, request, _changes, context.node.configs.change)


def _changes(resource: Any) -> list[ConfigChange]:
    return [ConfigChange(c.name, c.config_operation, c.value) for c in resource.configs]


API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, handle, Access("ALTER_CONFIGS", "TOPIC", topics_among_resources))
