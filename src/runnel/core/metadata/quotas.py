"""Decisions about client quotas (KIP-546, KIP-612): whom they may be for, and which values they may have.

In: the image and a command. Out: ClientQuotaRecords and an outcome per entity, which is changed as a whole or not at
all. Codes and messages follow Apache Kafka's controller, except that an entity given twice is left as it is (Kafka
carries out the first) and that a value must be a number.
"""

import ipaddress
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from runnel.core.metadata.commands import AlterClientQuotas, Decision, QuotaAlteration, QuotaOutcome
from runnel.core.metadata.image import ClusterImage, QuotaEntity
from runnel.core.metadata.records import ClientQuotaRecord, MetadataRecord, QuotaEntityPart
from runnel.wire.errors import ErrorCode, Refusal

USER, CLIENT_ID, IP = "user", "client-id", "ip"
WHOLE_NUMBER_TOLERANCE = 1e-6


class _Limit(NamedTuple):
    """Whole numbers end somewhere; a quota without an end may be a fraction."""

    maximum: int | None = None
    kind: str = ""


_LONG = _Limit(2**63 - 1, "a LONG")
_INT = _Limit(2**31 - 1, "an INT")
_CLIENT_KEYS = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": _Limit(),
    "controller_mutation_rate": _Limit(),
}
_IP_KEYS = {"connection_creation_rate": _INT}


def alter_client_quotas(image: ClusterImage, command: AlterClientQuotas) -> Decision[tuple[QuotaOutcome, ...]]:
    """Each entity whose changes may all stand gets a record per quota that really changes."""
    alterations = {quota_entity(alteration.entity): alteration for alteration in command.alterations}
    counts = Counter(quota_entity(alteration.entity) for alteration in command.alterations)
    records: list[MetadataRecord] = []
    outcomes = []
    for entity, alteration in alterations.items():
        try:
            if counts[entity] > 1:
                raise _bad(f"Ignoring duplicate entity {_shown(entity)}")
            records += _altered(image, entity, alteration)
            outcomes.append(QuotaOutcome(entity))
        except Refusal as refusal:
            outcomes.append(QuotaOutcome(entity, refusal.code, refusal.message))
    return Decision([] if command.validate_only else records, tuple(outcomes))


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Parts in any order as one key. Of a type that is given twice the last counts, as in Kafka."""
    return tuple(sorted(dict(parts).items()))


def _altered(image: ClusterImage, entity: QuotaEntity, alteration: QuotaAlteration) -> list[MetadataRecord]:
    keys = _keys_of(entity)
    if len({change.key for change in alteration.changes}) < len(alteration.changes):
        raise _bad(f"Duplicate quota key in the changes of {_shown(entity)}")
    for key, value in alteration.changes:
        if value is not None:
            _check_value(keys, key, value)
    current = image.client_quotas.get(entity, {})
    parts = tuple(QuotaEntityPart(kind, name) for kind, name in entity)
    return [
        ClientQuotaRecord(parts, change.key, 0.0 if change.value is None else change.value, change.value is None)
        for change in alteration.changes
        if current.get(change.key) != change.value
    ]


def _keys_of(entity: QuotaEntity) -> Mapping[str, _Limit]:
    """The quotas that this entity may have; Refusal where there can be no such entity."""
    if not entity:
        raise _bad("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _bad(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _bad(f"Empty {kind} not supported")
    types = dict(entity)
    if IP not in types:
        return _CLIENT_KEYS
    if len(types) > 1:
        raise _bad("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    _check_address(types[IP])
    return _IP_KEYS


def _check_address(name: str | None) -> None:
    """Kafka also takes host names and resolves them whenever it likes; here an address is an address."""
    if name is None:
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise _bad(f"{name} is not a valid IP address; host names are not resolved.") from None


def _check_value(keys: Mapping[str, _Limit], key: str, value: float) -> None:
    limit = keys.get(key)
    if limit is None:
        raise _bad(f"Invalid configuration key {key}")
    if math.isnan(value):
        raise _bad(f"Quota {key} must be a number")
    if value <= 0:
        raise _bad(f"Quota {key} must be greater than 0")
    if limit.maximum is None:
        return
    if value > float(limit.maximum):  # as Java compares them: the largest LONG is no double, but 2**63 is
        raise _bad(f"Proposed value for {key} is too large for {limit.kind}.")
    if abs(value - math.floor(value + WHOLE_NUMBER_TOLERANCE)) > WHOLE_NUMBER_TOLERANCE:
        raise _bad(f"{key} cannot be a fractional value.")


def _shown(entity: QuotaEntity) -> str:
    pairs = ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{pairs}}})"


def _bad(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
