"""Consumer groups as a broker serves them: settings of brokers and groups, the feature level, refusals, what stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groups.consumer_scenarios import Script
from harness.raw import RawConnection
from runnel import Broker
from runnel.broker.settings import SettingsInvalid

GROUP_RESOURCE, BROKER_RESOURCE, SET = 32, 4, 0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t", 3)
        yield running


@pytest.fixture
def script(broker: Broker) -> Iterator[Script]:
    with RawConnection(broker.bootstrap_servers) as connection:
        yield Script(connection)


def configure(script: Script, kind: int, name: str, **configs: str) -> int:
    rows = [{"name": key.replace("_", "."), "config_operation": SET, "value": value} for key, value in configs.items()]
    body = {"resources": [{"resource_type": kind, "resource_name": name, "configs": rows}]}
    code: int = script.connection.request(44, 1, body).responses[0].error_code
    return code


@pytest.mark.parametrize("version", [0, 1])
def test_a_members_life_in_both_versions(script: Script, version: int) -> None:
    joined = script.beat("g", "" if version == 0 else "mine", version=version)
    member_id = joined.member_id
    assert (joined.error_code, joined.member_epoch) == (0, 2)
    assert member_id == "mine" or len(member_id) == 22, "as Kafka writes a UUID"
    assert [list(row.partitions) for row in joined.assignment.topic_partitions] == [[0, 1, 2]]
    assert script.beat("g", member_id, 2, version=version).assignment is None
    described = script.connection.request(69, version, {"group_ids": ["g"]}).groups[0]
    assert (described.group_state, described.members[0].member_id) == ("Stable", member_id)
    assert script.beat("g", member_id, -1, version=version).member_epoch == -1


def test_without_the_feature_there_are_no_consumer_groups(script: Script) -> None:
    body = {"feature_updates": [{"feature": "group.version", "max_version_level": 0, "upgrade_type": 2}]}
    assert script.connection.request(57, 1, {"timeout": 30_000, **body}).error_code == 0
    assert script.beat("g", "m").error_code.name == "unsupported_version"
    assert script.connection.request(69, 1, {"group_ids": ["g"]}).groups[0].error_code.name == "unsupported_version"


def test_a_group_has_settings_of_its_own(script: Script) -> None:
    assert configure(script, GROUP_RESOURCE, "g", consumer_heartbeat_interval_ms="7000") == 0
    assert script.beat("g", "m").heartbeat_interval.total_seconds() == 7
    assert script.beat("other", "m").heartbeat_interval.total_seconds() == 5
    assert configure(script, GROUP_RESOURCE, "g", consumer_heartbeat_interval_ms="1") != 0


def test_the_assignment_interval_is_a_dynamic_setting(script: Script) -> None:
    assert configure(script, BROKER_RESOURCE, "", group_consumer_assignment_interval_ms="15000") == 0
    script.beat("g", "a")
    script.beat("g", "b")
    assert script.connection.request(69, 1, {"group_ids": ["g"]}).groups[0].group_state == "Assigning"
    assert configure(script, BROKER_RESOURCE, "", group_consumer_assignment_interval_ms="0") == 0
    script.beat("g", "b", 2)
    assert script.connection.request(69, 1, {"group_ids": ["g"]}).groups[0].group_state == "Reconciling"


def test_expressions_are_resolved_and_refused(broker: Broker, script: Script) -> None:
    def join(regex: str) -> Any:
        return script.beat("g", "m", subscribed_topic_names=None, subscribed_topic_regex=regex)

    for wrong in ("(", r"(a)\1", "a" * 1025):
        reply = join(wrong)
        assert reply.error_code.name == "invalid_regular_expression"
        assert "is not a valid regular expression" in reply.error_message
    joined = join("log-.*")
    assert (joined.error_code, joined.assignment.topic_partitions) == (0, ())
    broker.create_topic("log-a", 2)
    told = script.beat("g", "m", joined.member_epoch)
    assert [list(row.partitions) for row in told.assignment.topic_partitions] == [[0, 1]]


def test_a_member_that_names_a_topic_twice_has_both_parts(script: Script) -> None:
    """Two rows of one topic are one: a partition in the first is not given up."""
    script.topic_ids["t"] = script.beat("g", "a").assignment.topic_partitions[0].topic_id
    script.beat("g", "b")
    script.beat("g", "a", 2)
    still = script.part("t", 0, 1, 2) + script.part("t", 0)
    assert script.beat("g", "a", 2, topic_partitions=still).member_epoch == 2
    assert script.beat("g", "a", 2, topic_partitions=script.part("t", 0, 1)).member_epoch == 3


def test_groups_are_there_after_a_restart(tmp_path: Path) -> None:
    for start in (1, 2):
        with Broker(tmp_path) as broker, RawConnection(broker.bootstrap_servers) as connection:
            script = Script(connection)
            if start == 1:
                broker.create_topic("t", 3)
                script.topic_ids["t"] = script.beat("g", "a", rack_id="r").assignment.topic_partitions[0].topic_id
                script.beat("g", "b")
                script.beat("g", "a", 2)
                script.commit(10, "g", "a", 2, 0, 1, 2)
            script.lines.clear()
            script.describe("g")
            script.fetch(9, "g", "a", 2)
            script.list("g")
            if start == 1:
                before = script.lines
    assert script.lines == before
    assert before[-2] == ("fetch", 9, "none", 5)


def test_settings_that_contradict_each_other_are_refused() -> None:
    for name, value in (
        ("group.consumer.session.timeout.ms", "1000"),
        ("group.consumer.heartbeat.interval.ms", "99999"),
        ("group.consumer.migration.policy", "sideways"),
        ("group.consumer.assignors", "uniform,mine"),
        ("group.consumer.regex.refresh.interval.ms", "9"),
    ):
        with pytest.raises(SettingsInvalid, match=name):
            Broker(configs={name: value})
