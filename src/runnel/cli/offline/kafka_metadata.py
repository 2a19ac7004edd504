"""Records that Apache Kafka's controllers write and Runnel's do not: told by name, and decoded where that is short.

In: the value of a record of `__cluster_metadata`. Out: a mapping with `type`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from runnel.core.metadata.codec import (
    BOOLEAN,
    IDENTIFIER,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UINT16,
    Field,
    array,
    fields_codec,
)
from runnel.wire.errors import Malformed
from runnel.wire.varints import decode_uvarint


class _Kind(NamedTuple):
    name: str
    fields: tuple[Field, ...] | None = None
    """Of version 0; None where it is not decoded."""


def _entity(*fields: Field) -> Any:
    return fields_codec(dict, fields, 0)


_BROKER = (Field("id", INT32), Field("epoch", INT64))
_ENDPOINT = _entity(
    Field("name", STRING), Field("host", STRING), Field("port", UINT16), Field("security_protocol", INT16)
)
_FEATURE = _entity(Field("name", STRING), Field("min_supported_version", INT16), Field("max_supported_version", INT16))
_KINDS = {
    7: _Kind("FenceBrokerRecord", _BROKER),
    8: _Kind("UnfenceBrokerRecord", _BROKER),
    10: _Kind("DelegationTokenRecord"),
    18: _Kind(
        "AccessControlEntryRecord",
        (
            Field("id", IDENTIFIER),
            Field("resource_type", INT8),
            Field("resource_name", STRING),
            Field("pattern_type", INT8),
            Field("principal", STRING),
            Field("host", STRING),
            Field("operation", INT8),
            Field("permission_type", INT8),
        ),
    ),
    19: _Kind("RemoveAccessControlEntryRecord", (Field("id", IDENTIFIER),)),
    21: _Kind("ZkMigrationStateRecord", (Field("zk_migration_state", INT8),)),
    23: _Kind("BeginTransactionRecord", (Field("name", NULLABLE_STRING, tag=0),)),
    24: _Kind("EndTransactionRecord", ()),
    25: _Kind("AbortTransactionRecord", (Field("reason", NULLABLE_STRING, tag=0),)),
    26: _Kind("RemoveDelegationTokenRecord", (Field("token_id", STRING),)),
    27: _Kind(
        "RegisterControllerRecord",
        (
            Field("controller_id", INT32),
            Field("incarnation_id", IDENTIFIER),
            Field("zk_migration_ready", BOOLEAN),
            Field("end_points", array(_ENDPOINT)),
            Field("features", array(_FEATURE)),
        ),
    ),
    28: _Kind("ClearElrRecord", (Field("topic_name", STRING),)),
}


def decode_kafka_record(value: bytes) -> dict[str, Any]:
    """Malformed where not even the frame can be read, or a known record does not parse."""
    _, position = decode_uvarint(value, 0)
    record_id, position = decode_uvarint(value, position)
    version, position = decode_uvarint(value, position)
    kind = _KINDS.get(record_id)
    if kind is None or kind.fields is None or version > 0:
        return {"type": kind.name if kind else f"Record{record_id}", "version": version, "value": value.hex()}
    fields, end = fields_codec(dict, kind.fields, 0).read(value, position)
    if end != len(value):
        raise Malformed(f"a {kind.name} has {len(value) - end} bytes too many")
    return {"type": kind.name, **fields}
