"""UpdateFeatures (key 57).

Versions 0–2 (KIP-584, 778): changes finalized feature levels, all or none; validate_only. Version 0 says whether a
feature may be downgraded, which is done safely or not at all; Kafka 4.3 does not look at that.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import FeatureUpdate
from runnel.core.metadata.features import UpgradeType
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal


async def handle(context: Context, request: Any) -> Body:
    updates = [_update(context, wanted) for wanted in request.feature_updates]
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
            {"feature": update.feature, "error_code": ErrorCode.NONE, "error_message": None} for update in done
        ],
    }


def _update(context: Context, wanted: Any) -> FeatureUpdate:
    kind = wanted.upgrade_type
    if context.version == 0:
        lower = wanted.max_version_level < context.node.image.features.get(wanted.feature, 0)
        kind = UpgradeType.SAFE_DOWNGRADE if wanted.allow_downgrade and lower else UpgradeType.UPGRADE
    return FeatureUpdate(wanted.feature, wanted.max_version_level, kind)


API = Api(ApiKey.UPDATE_FEATURES, handle, Access("ALTER", "CLUSTER"))
