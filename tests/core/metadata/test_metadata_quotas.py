"""Client quotas: which entities, keys and values are taken, and what a change leaves in the log."""

from __future__ import annotations

import math

import pytest
from metadata_cluster import Cluster

from runnel.core.metadata import AlterClientQuotas, QuotaAlteration, QuotaChange, QuotaOutcome
from runnel.core.metadata.records import ClientQuotaRecord, QuotaEntityPart
from runnel.wire.errors import ErrorCode

Pairs = list[tuple[str, str | None]]


def alter(entity: Pairs, *changes: tuple[str, float | None], validate_only: bool = False) -> AlterClientQuotas:
    alteration = QuotaAlteration(entity, [QuotaChange(*change) for change in changes])
    return AlterClientQuotas([alteration], validate_only)


def only(cluster: Cluster, command: AlterClientQuotas) -> QuotaOutcome:
    (outcome,) = cluster.do(command)
    assert isinstance(outcome, QuotaOutcome)
    return outcome


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ([("user", "alice")], "producer_byte_rate", 1000.0),
        ([("user", None)], "consumer_byte_rate", 1.0),
        ([("client-id", "c")], "request_percentage", 0.5),
        ([("client-id", None), ("user", None)], "controller_mutation_rate", 1.5),
        ([("user", "a"), ("client-id", "c")], "producer_byte_rate", 2.0**62),
        ([("ip", "127.0.0.1")], "connection_creation_rate", 2.0**31 - 1),
        ([("ip", "::1")], "connection_creation_rate", 10.0),
        ([("ip", None)], "connection_creation_rate", 10.0),
    ],
)
def test_a_quota_is_kept_under_its_entity(entity: Pairs, key: str, value: float) -> None:
    cluster = Cluster()
    assert only(cluster, alter(entity, (key, value))).code is ErrorCode.NONE
    assert cluster.machine.image.client_quotas == {tuple(sorted(entity)): {key: value}}


@pytest.mark.parametrize(
    ("entity", "key", "value", "words"),
    [
        ([], "producer_byte_rate", 1.0, "Invalid empty client quota entity"),
        ([("group", "g")], "producer_byte_rate", 1.0, "Unhandled client quota entity type: group"),
        ([("user", "")], "producer_byte_rate", 1.0, "Empty user not supported"),
        ([("ip", "1.2.3.4"), ("user", "a")], "connection_creation_rate", 1.0, "should not be combined"),
        ([("ip", "256.0.0.1")], "connection_creation_rate", 1.0, "256.0.0.1 is not a valid IP address"),
        ([("ip", "localhost")], "connection_creation_rate", 1.0, "host names are not resolved"),
        ([("ip", "1.2.3.4")], "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        ([("user", "a")], "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ([("user", "a")], "nope", 1.0, "Invalid configuration key nope"),
        ([("user", "a")], "producer_byte_rate", 0.0, "must be greater than 0"),
        ([("user", "a")], "request_percentage", -0.5, "must be greater than 0"),
        ([("user", "a")], "producer_byte_rate", 1.5, "cannot be a fractional value"),
        ([("user", "a")], "producer_byte_rate", 1e30, "too large for a LONG"),
        ([("user", "a")], "producer_byte_rate", math.inf, "too large for a LONG"),
        ([("ip", None)], "connection_creation_rate", 2.0**31, "too large for an INT"),
        ([("user", "a")], "request_percentage", math.nan, "must be a number"),
    ],
)
def test_refusals_name_what_is_wrong(entity: Pairs, key: str, value: float, words: str) -> None:
    cluster = Cluster()
    before = list(cluster.log)
    outcome = only(cluster, alter(entity, (key, value)))
    assert outcome.code is ErrorCode.INVALID_REQUEST
    assert words in (outcome.message or "")
    assert cluster.log == before


def test_only_what_changes_is_logged() -> None:
    cluster = Cluster()
    alice: Pairs = [("user", "alice")]
    only(cluster, alter(alice, ("producer_byte_rate", 5.0), ("consumer_byte_rate", 6.0)))
    same = alter(alice, ("producer_byte_rate", 5.0), ("consumer_byte_rate", None), ("request_percentage", None))
    part = (QuotaEntityPart("user", "alice"),)
    assert cluster.decide(same).records == [ClientQuotaRecord(part, "consumer_byte_rate", 0.0, remove=True)]
    only(cluster, same)
    only(cluster, alter(alice, ("producer_byte_rate", None)))
    assert cluster.machine.image.client_quotas == {}


def test_an_entity_is_changed_as_a_whole_or_not_at_all() -> None:
    cluster = Cluster()
    half_bad = alter([("user", "a")], ("producer_byte_rate", 5.0), ("nope", 1.0))
    assert only(cluster, half_bad).code is ErrorCode.INVALID_REQUEST
    twice = alter([("user", "a")], ("producer_byte_rate", 5.0), ("producer_byte_rate", None))
    assert "Duplicate quota key" in (only(cluster, twice).message or "")
    alteration = QuotaAlteration([("user", "a")], [QuotaChange("producer_byte_rate", 1.0)])
    other = QuotaAlteration([("user", "b")], [QuotaChange("producer_byte_rate", 1.0)])
    outcomes = cluster.do(AlterClientQuotas([alteration, other, alteration]))
    assert [(outcome.entity[0][1], outcome.code) for outcome in outcomes] == [("a", 42), ("b", 0)]
    assert "ClientQuotaEntity(entries={user=a})" in outcomes[0].message
    assert list(cluster.machine.image.client_quotas) == [(("user", "b"),)]


def test_removing_what_was_never_set_is_done_at_once() -> None:
    cluster = Cluster()
    decision = cluster.decide(alter([("user", "a")], ("nope", None)))
    assert (decision.records, decision.reply[0].code) == ([], ErrorCode.NONE)


def test_validate_only_logs_nothing() -> None:
    cluster = Cluster()
    assert only(cluster, alter([("user", "a")], ("producer_byte_rate", 5.0), validate_only=True)).code == 0
    assert cluster.machine.image.client_quotas == {}


def test_quotas_that_are_not_touched_are_the_same_object() -> None:
    """Enforcement looks at the identity to see whether anything changed."""
    cluster = Cluster()
    only(cluster, alter([("user", "a")], ("producer_byte_rate", 5.0)))
    before = cluster.machine.image.client_quotas
    only(cluster, alter([("user", "b")], ("producer_byte_rate", 5.0), validate_only=True))
    assert cluster.machine.image.client_quotas is before
