"""AlterUserScramCredentials (key 51).

Version 0 (KIP-554): gives users SCRAM credentials and takes them away. Passwords come salted and hashed. Left out: they
are kept, but no listener asks for them yet.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import CredentialDeletion, CredentialOutcome, CredentialUpsertion
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal


async def handle(context: Context, request: Any) -> Body:
    deletions = [CredentialDeletion(deletion.name, deletion.mechanism) for deletion in request.deletions]
    upsertions = [
        CredentialUpsertion(wanted.name, wanted.mechanism, wanted.iterations, wanted.salt, wanted.salted_password)
        for wanted in request.upsertions
    ]
    try:
        check_cluster(context)
        outcomes = await context.node.credentials.alter(deletions, upsertions)
    except Refusal as refusal:
        users = {**dict.fromkeys(d.user for d in deletions), **dict.fromkeys(u.user for u in upsertions)}
        outcomes = [CredentialOutcome(user, refusal.code, refusal.message) for user in users]
    return {
        "results": [
            {"user": outcome.user, "error_code": outcome.code, "error_message": outcome.message} for outcome in outcomes
        ]
    }


API = Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, handle, Access("ALTER", "CLUSTER"))
