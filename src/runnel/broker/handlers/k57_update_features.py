"""UpdateFeatures (key 57).

Versions 0–2 (KIP-584, 778): changes finalized feature levels, all or none; validate_only. Version 0's
allow_downgrade is not looked at, as in Kafka 4.3: that version upgrades only.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import FeatureUpdate
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal


async def handle(context: Context, request: Any) -> Body:
    updates = [FeatureUpdate(row.feature, row.max_version_level, row.upgrade_type) for row in request.feature_updates]
    try:
        check_cluster(context)
        outcome = await context.node.cluster.update_features(updates, request.validate_only)
    except Refusal as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message, "results": []}
    done = [] if outcome.code else updates
    return {
        "error_code": outcome.code,
        "error_message": outcome.message,
        "results": [
            {"feature": update.feature, "error_code": ErrorCode.NONE, "error_message": "NONE"} for update in done
        ],
    }


API = Api(ApiKey.UPDATE_FEATURES, handle, Access("ALTER", "CLUSTER"))
