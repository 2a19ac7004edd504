"""DescribeConfigs (key 32).

Versions 1–4 for topics, brokers, their loggers (KIP-412), groups and client metrics: values with their source, synonyms
(KIP-226), types and documentation (KIP-569); sensitive values are never shown.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.resources_named import is_denied, resource_of, topics_among_resources
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.configs import ConfigRow
from runnel.core.metadata import ResourceType
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

RESOURCE_TYPES = frozenset(ResourceType)


def handle(context: Context, request: Any) -> Body:
    strange = [asked.resource_type for asked in request.resources if asked.resource_type not in RESOURCE_TYPES]
    if strange:  # Kafka refuses the whole request then
        return {"results": [_refused(asked, strange[0]) for asked in request.resources]}
    return {"results": [_result(context, request, resource) for resource in request.resources]}


def _refused(asked: Any, strange: int) -> Body:
    message = f"there are no configs of resource type {strange}"
    row = {"resource_type": asked.resource_type, "resource_name": asked.resource_name, "configs": []}
    return {**row, "error_code": ErrorCode.INVALID_REQUEST, "error_message": message}


def _result(context: Context, request: Any, asked: Any) -> Body:
    resource = resource_of(asked)
    row: Body = {"resource_type": resource.type, "resource_name": resource.name, "configs": []}
    try:
        if is_denied(context, asked):
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        names = set(asked.configuration_keys or ()) or None  # none named: all, as in Kafka
        rows = context.node.configs.describe(resource, names)
    except Refusal as refusal:
        return {**row, "error_code": refusal.code, "error_message": refusal.message}
    row["configs"] = [config_row(config, request.include_synonyms, request.include_documentation) for config in rows]
    return row


def config_row(config: ConfigRow, with_synonyms: bool, with_documentation: bool) -> Body:
    synonyms = config.synonyms if with_synonyms else ()
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "config_source": config.source,
        "is_sensitive": config.sensitive,
        "synonyms": [{"name": s.name, "value": s.value, "source": s.source} for s in synonyms],
        "config_type": config.type,
        "documentation": config.documentation if with_documentation else None,
    }


API = Api(ApiKey.DESCRIBE_CONFIGS, handle, Access("DESCRIBE_CONFIGS", "TOPIC", topics_among_resources))
