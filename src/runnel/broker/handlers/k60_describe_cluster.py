"""DescribeCluster (key 60).

Versions 0–2: cluster id, brokers, controller (KIP-700). Endpoint type 1 (brokers) only: controllers have no listener
of their own.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.acl_operations import cluster_operations
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode

BROKERS, CONTROLLERS = 1, 2


def handle(context: Context, request: Any) -> Body:
    if request.endpoint_type != BROKERS:
        message = f"endpoint type {request.endpoint_type} is not served on this listener; use 1 (brokers)"
        known = request.endpoint_type == CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return {"error_code": code, "error_message": message}
    node = context.node
    rows = node.broker_rows(context.connection.advertised)
    return {
        "endpoint_type": BROKERS,
        "cluster_id": node.cluster_id,
        "controller_id": node.node_id,
        "brokers": [{"broker_id": row["node_id"], **{k: row[k] for k in ("host", "port", "rack")}} for row in rows],
        "cluster_authorized_operations": cluster_operations(request.include_cluster_authorized_operations),
    }


API = Api(ApiKey.DESCRIBE_CLUSTER, handle, Access("DESCRIBE", "CLUSTER"))
