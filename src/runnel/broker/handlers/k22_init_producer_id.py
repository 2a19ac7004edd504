"""InitProducerId (key 22).

Versions 0–5 for idempotent producers: a new producer id with epoch 0 (KIP-98, KIP-360). Left out: transactional ids,
which are refused.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1


async def handle(context: Context, request: Any) -> Body:
    try:
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            raise Refusal(ErrorCode.INVALID_REQUEST, "a producer id and its epoch are given together or not at all")
        if request.transactional_id is not None:
            raise Refusal(ErrorCode.INVALID_REQUEST, "transactions are not built yet (docs/limits.md)")
        producer_id = await context.node.producer_ids.next()
    except Refusal as refusal:
        return {"error_code": refusal.code, "producer_id": -1, "producer_epoch": -1}
    return {"producer_id": producer_id, "producer_epoch": 0}


API = Api(ApiKey.INIT_PRODUCER_ID, handle, Access("IDEMPOTENT_WRITE", "CLUSTER"))
