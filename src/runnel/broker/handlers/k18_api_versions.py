"""ApiVersions (key 18).

Versions 0–4. Advertises what the router's table holds, in Kafka 4.3's ranges. The client's software name and version
(KIP-511) are checked and kept with the connection. An unknown version is answered by the router. Left out:
supported and finalized features (KIP-584): none are told.
"""

from __future__ import annotations

import re
from typing import Any

from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode

SOFTWARE_NAME_SINCE_VERSION = 3
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: Context, request: Any) -> Body:
    if context.version >= SOFTWARE_NAME_SINCE_VERSION:
        name, version = request.client_software_name, request.client_software_version
        if not SOFTWARE_NAME.fullmatch(name) or not SOFTWARE_NAME.fullmatch(version):
            return {"error_code": ErrorCode.INVALID_REQUEST}
        context.connection.client_software = (name, version)
    return {"api_keys": context.node.advertised_rows()}


API = Api(ApiKey.API_VERSIONS, handle, Access("NONE", "NONE"))
