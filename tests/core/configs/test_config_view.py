"""Which value wins, what DescribeConfigs shows, and what a set of overrides is refused for."""

from __future__ import annotations

import pytest

from runnel.core.configs import (
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    BrokerConfigView,
    ConfigInvalid,
    ConfigKind,
    ConfigRow,
    ConfigRules,
    ConfigSource,
    ConfigUnknown,
)
from runnel.core.configs.rules import check_static_configs, check_topic_configs
from runnel.wire.errors import ErrorCode

TOPIC, BROKER, ALL_BROKERS, STATIC, DEFAULT = list(ConfigSource)[:5]


def row(rows: list[ConfigRow], name: str) -> ConfigRow:
    (found,) = [row for row in rows if row.name == name]
    return found


def test_the_stronger_source_wins() -> None:
    name, broker_name = "max.message.bytes", "message.max.bytes"
    static, for_all, own, topic = ({broker_name: "4"}, {broker_name: "3"}, {broker_name: "2"}, {name: "1"})
    assert BrokerConfigView().topic()[name] == 1048588
    assert BrokerConfigView(static).topic()[name] == 4
    assert BrokerConfigView(static, for_all).topic()[name] == 3
    assert BrokerConfigView(static, for_all, own).topic()[name] == 2
    view = BrokerConfigView(static, for_all, own).topic(topic)
    assert view[name] == 1
    described = row(view.describe(), name)
    assert [(synonym.value, synonym.source) for synonym in described.synonyms] == [
        ("1", TOPIC),
        ("2", BROKER),
        ("3", ALL_BROKERS),
        ("4", STATIC),
        ("1048588", DEFAULT),
    ]
    assert (described.value, described.source, described.is_default) == ("1", TOPIC, False)


def test_a_default_is_shown_as_default() -> None:
    described = row(BrokerConfigView().topic().describe(["segment.bytes"]), "segment.bytes")
    assert (described.value, described.source, described.is_default) == ("1073741824", DEFAULT, True)
    assert [synonym.name for synonym in described.synonyms] == ["log.segment.bytes"]
    assert described.documentation == TOPIC_CONFIGS["segment.bytes"].documentation


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "24"}, 86_400_000),
        ({"log.retention.minutes": "2", "log.retention.hours": "24"}, 120_000),
        ({"log.retention.ms": "5", "log.retention.minutes": "2"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1"}, -1),
    ],
)
def test_retention_comes_from_the_finest_unit_that_is_set(static: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfigView(static).topic()["retention.ms"] == retention_ms


def test_coarser_units_are_listed_only_behind_the_key_itself() -> None:
    view = BrokerConfigView({"log.retention.hours": "24"})
    assert row(view.topic().describe(), "retention.ms").synonyms == ()
    assert row(view.topic().describe(), "retention.ms").source is DEFAULT
    view = view.with_dynamic({"log.retention.ms": "6000"})
    names = [synonym.name for synonym in row(view.topic().describe(), "retention.ms").synonyms]
    assert names == ["log.retention.ms", "log.retention.hours", "log.retention.hours"]
    hours = row(view.describe(), "log.retention.hours")
    assert [synonym.source for synonym in hours.synonyms] == [STATIC, DEFAULT]


def test_the_nameless_broker_shows_only_what_is_set_for_all() -> None:
    view = BrokerConfigView({"log.roll.ms": "1"}, {"log.roll.ms": "2"}, {"log.roll.ms": "3"})
    (described,) = view.describe_default()
    assert (described.name, described.value, described.source) == ("log.roll.ms", "2", ALL_BROKERS)
    assert [(synonym.value, synonym.source) for synonym in described.synonyms] == [("2", ALL_BROKERS)]
    assert view.describe_default(["log.retention.ms"]) == []


def test_names_select_rows_and_unknown_names_select_none() -> None:
    assert [row.name for row in BrokerConfigView().topic().describe(["retention.ms", "nope"])] == ["retention.ms"]
    assert len(BrokerConfigView().topic().describe()) == len(TOPIC_CONFIGS)
    assert len(BrokerConfigView().describe()) == len(BROKER_CONFIGS)
    assert BrokerConfigView().describe([]) == []


def test_what_another_version_wrote_is_named_and_left_out() -> None:
    broker = BrokerConfigView({}, {"log.retention.ms": "soon"}, {"from.the.future": "1"})
    assert set(broker.ignored) == {"log.retention.ms", "from.the.future"}
    view = broker.topic({"retention.ms": "junk", "segment.ms": "5", "other": "x"})
    assert set(view.ignored) == {"retention.ms", "other"}
    assert (view["retention.ms"], view["segment.ms"]) == (604_800_000, 5)


def test_views_without_overrides_share_their_values() -> None:
    broker = BrokerConfigView()
    assert broker.topic()._values is broker.topic({})._values


def test_texts_keep_their_form_in_synonyms_and_values_are_tidy() -> None:
    broker = BrokerConfigView({"log.segment.bytes": " +2000000 "})
    described = row(broker.describe(), "log.segment.bytes")
    assert (described.value, described.synonyms[0].value) == ("2000000", " +2000000 ")


def test_every_broker_synonym_is_a_broker_config_of_the_same_type() -> None:
    for definition in TOPIC_CONFIGS.values():
        if definition.broker_synonym is not None:
            behind = BROKER_CONFIGS[definition.broker_synonym]
            assert (behind.type, behind.effective) == (definition.type, definition.effective)


# ------------------------------------------------------------------------------------------------ rules


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "min.compaction.lag.ms (10) is more than"),
        ({"remote.storage.enable": "true"}, "tiered storage"),
        ({"retentoin.ms": "1"}, "Unknown topic config name: retentoin.ms; did you mean retention.ms?"),
        ({"qqqq": "1"}, "Unknown topic config name: qqqq"),
    ],
)
def test_overrides_that_do_not_fit_together_are_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        check_topic_configs(overrides, BrokerConfigView())
    assert message in str(caught.value)
    refusal = ConfigRules(BrokerConfigView()).refusal(ConfigKind.TOPIC, overrides)
    assert refusal is not None
    assert (refusal.code, refusal.message) == (ErrorCode.INVALID_CONFIG, str(caught.value))


def test_the_defaults_of_the_broker_count_when_overrides_are_judged() -> None:
    broker = BrokerConfigView({"log.cleaner.min.compaction.lag.ms": "10"})
    assert ConfigRules(broker).refusal(ConfigKind.TOPIC, {"max.compaction.lag.ms": "5"}) is not None
    assert ConfigRules(BrokerConfigView()).refusal(ConfigKind.TOPIC, {"max.compaction.lag.ms": "5"}) is None


def test_settings_at_start_up_are_checked() -> None:
    check_static_configs({"num.partitions": "3", "acks.all.flush": "false"})
    with pytest.raises(ConfigInvalid, match=r"num\.partitions: '0' is not allowed; give 1 or more"):
        check_static_configs({"num.partitions": "0"})
    with pytest.raises(ConfigUnknown, match=r"did you mean num\.partitions"):
        check_static_configs({"num.partition": "3"})


def test_a_running_broker_takes_only_dynamic_configs() -> None:
    rules = ConfigRules(BrokerConfigView())
    assert rules.refusal(ConfigKind.BROKER, {"log.retention.ms": "5"}) is None
    assert "start-up" in str(rules.refusal(ConfigKind.BROKER, {"node.id": "5"}))


def test_lists_are_known_as_lists() -> None:
    rules = ConfigRules(BrokerConfigView({"log.cleanup.policy": "compact"}))
    assert rules.list_default(ConfigKind.TOPIC, "cleanup.policy") == ("compact",)
    assert rules.list_default(ConfigKind.TOPIC, "retention.ms") is None
    assert rules.list_default(ConfigKind.TOPIC, "nope") is None
    assert rules.list_default(ConfigKind.BROKER, "log.cleanup.policy") == ("delete",)
    assert rules.list_default(ConfigKind.BROKER, "advertised.listeners") == ()
    assert rules.list_default(ConfigKind.BROKER, "log.retention.ms") is None


# ------------------------------------------------------------------------------------------------ groups and metrics


def test_a_group_config_is_shown_over_the_broker_key_behind_it() -> None:
    described = BrokerConfigView().group({"consumer.session.timeout.ms": "50000"}).describe()
    assert {found.name for found in described} == set(GROUP_CONFIGS)
    session = row(described, "consumer.session.timeout.ms")
    assert (session.value, session.source) == ("50000", ConfigSource.GROUP)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in session.synonyms] == [
        ("consumer.session.timeout.ms", "50000", ConfigSource.GROUP),
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT),
    ]
    reset = row(described, "share.auto.offset.reset")
    assert (reset.value, reset.source) == ("latest", ConfigSource.DEFAULT)
    assert [synonym.name for synonym in reset.synonyms] == ["share.auto.offset.reset"]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"consumer.session.timeout.ms": "44999"}, "from 45000 to 60000"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "from 5000 to 15000"),
        ({"share.delivery.count.limit": "11"}, "from 2 to 10"),
        ({"streams.num.standby.replicas": "3"}, "from 0 to 2"),
        ({"share.isolation.level": "READ_COMMITTED"}, "one of read_committed, read_uncommitted"),
        ({"share.auto.offset.reset": "by_duration:PT"}, "by_duration:<PnDTnHnMn.nS>"),
        ({"share.auto.offset.reset": "by_duration:-PT1S"}, "by_duration:<PnDTnHnMn.nS>"),
    ],
)
def test_a_group_config_that_cannot_be_is_refused(overrides: dict[str, str], words: str) -> None:
    refusal = ConfigRules(BrokerConfigView()).refusal(ConfigKind.GROUP, overrides)
    assert refusal is not None
    assert (refusal.code, words in (refusal.message or "")) == (ErrorCode.INVALID_CONFIG, True)


@pytest.mark.parametrize("reset", ["earliest", "latest", "by_duration:PT1H", "by_duration:P3DT2H5M0.5S"])
def test_a_share_group_may_start_here(reset: str) -> None:
    assert ConfigRules(BrokerConfigView()).refusal(ConfigKind.GROUP, {"share.auto.offset.reset": reset}) is None


def test_a_subscription_without_configs_shows_the_defaults() -> None:
    described = {found.name: found for found in BrokerConfigView().client_metrics({"interval.ms": "1000"}).describe()}
    assert {name: (found.value, found.source) for name, found in described.items()} == {
        "interval.ms": ("1000", ConfigSource.CLIENT_METRICS),
        "match": ("", ConfigSource.DEFAULT),
        "metrics": ("", ConfigSource.DEFAULT),
    }
    assert described["match"].synonyms == ()


def test_a_pattern_names_a_property_of_clients() -> None:
    rules = ConfigRules(BrokerConfigView())
    good = {"match": "client_id=app-[0-9]+,client_software_name=librdkafka"}
    assert rules.refusal(ConfigKind.CLIENT_METRICS, good) is None
