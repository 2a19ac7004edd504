"""ApiVersions (key 18).

Versions 0–4. Advertises what the router's table holds, in Kafka 4.3's ranges. The client's software name and version
(KIP-511) are checked and kept with the connection. An unknown version is answered by the router. From version 3 on
the supported and finalized features are told (KIP-584); version 3 cannot say that a feature may be off, and leaves
out those that may.
"""

from __future__ import annotations

import re
from typing import Any

from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata.features import SUPPORTED_FEATURES
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode

SOFTWARE_NAME_SINCE_VERSION = 3
FEATURES_MAY_BE_OFF_SINCE_VERSION = 4
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: Context, request: Any) -> Body:
    if context.version >= SOFTWARE_NAME_SINCE_VERSION:
        name, version = request.client_software_name, request.client_software_version
        if not SOFTWARE_NAME.fullmatch(name) or not SOFTWARE_NAME.fullmatch(version):
            return {"error_code": ErrorCode.INVALID_REQUEST}
        context.connection.client_software = (name, version)
    return {"api_keys": context.node.advertised_rows(), **_features(context)}


def _features(context: Context) -> Body:
    may_be_off = context.version >= FEATURES_MAY_BE_OFF_SINCE_VERSION
    image = context.node.image
    return {
        "supported_features": [
            {
                "name": feature.name,
                "min_version": feature.min_supported_version,
                "max_version": feature.max_supported_version,
            }
            for feature in SUPPORTED_FEATURES
            if feature.min_supported_version > 0 or may_be_off
        ],
        "finalized_features_epoch": image.version - 1,  # the offset of the last record that this broker has replayed
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in image.features.items()
        ],
    }


API = Api(ApiKey.API_VERSIONS, handle, Access("NONE", "NONE"))
