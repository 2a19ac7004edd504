"""ListConfigResources (key 74).

Versions 0–1: the names of client metrics subscriptions (version 0, KIP-714), or of the resources of given types, all
types where none is given (version 1, KIP-1142): topics, brokers, their loggers, groups with configs, subscriptions.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import ResourceType
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal

TYPES_SINCE_VERSION = 1


def handle(context: Context, request: Any) -> Body:
    types = request.resource_types if context.version >= TYPES_SINCE_VERSION else [ResourceType.CLIENT_METRICS]
    try:
        check_cluster(context)
        found = context.node.configs.resources(types)
    except Refusal as refusal:
        return {"error_code": refusal.code}
    return {"config_resources": [{"resource_name": name, "resource_type": kind} for kind, name in found]}


API = Api(ApiKey.LIST_CONFIG_RESOURCES, handle, Access("DESCRIBE_CONFIGS", "CLUSTER"))
