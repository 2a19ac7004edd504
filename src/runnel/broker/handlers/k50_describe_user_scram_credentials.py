"""DescribeUserScramCredentials (key 50).

Version 0 (KIP-554): which mechanisms users have, with how many iterations. Nothing that a password could be guessed
from is told.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.router import Access, Api, Body, Context
from runnel.services.credentials import UserCredentials
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal


def handle(context: Context, request: Any) -> Body:
    try:
        check_cluster(context)
    except Refusal as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message}
    found = context.node.credentials.describe([user.name for user in request.users or ()])
    return {"error_message": "", "results": [_row(credentials) for credentials in found]}


def _row(credentials: UserCredentials) -> Body:
    return {
        "user": credentials.user,
        "error_code": credentials.code,
        "error_message": credentials.message or "",
        "credential_infos": [
            {"mechanism": mechanism, "iterations": iterations}
            for mechanism, iterations in credentials.iterations_by_mechanism.items()
        ],
    }


API = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, handle, Access("DESCRIBE", "CLUSTER"))
