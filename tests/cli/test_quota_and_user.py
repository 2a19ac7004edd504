"""`runnel quota` and `runnel user`: limits and SCRAM users, from setting to taking away. Against Kafka too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cli.conftest import Runnel
from harness.conditions import wait_until

NewName = Callable[[], str]


def shown(runnel: Runnel, *arguments: str) -> list[list[str]]:
    return [line.split() for line in runnel("quota", "list", *arguments).ok().lines[1:]]


def test_the_life_of_a_quota(runnel: Runnel, new_name: NewName) -> None:
    user = f"u-{new_name()}"
    done = runnel("quota", "set", "--user", user, "producer_byte_rate=10MiB", "request_percentage=12.5").ok()
    assert done.text == f"set producer_byte_rate, request_percentage of user '{user}'\n"
    runnel("quota", "set", "--user", user, "--client-id", "app", "consumer_byte_rate=500kB").ok()
    wait_until(lambda: len(shown(runnel, "--user", user)) == 3, "the quotas")
    assert shown(runnel, "--user", user) == [
        [user, "-", "-", "producer_byte_rate", "10485760"],
        [user, "-", "-", "request_percentage", "12.5"],
        [user, "app", "-", "consumer_byte_rate", "500000"],
    ]
    assert runnel("quota", "list", "--user", user, "--json").ok().document[0] == {
        "entity": [{"type": "user", "name": user}],
        "quotas": {"producer_byte_rate": 10485760.0, "request_percentage": 12.5},
    }
    assert runnel("quota", "unset", "--user", user, "producer_byte_rate").ok().text == (
        f"unset producer_byte_rate of user '{user}'\n"
    )
    wait_until(lambda: len(shown(runnel, "--user", user)) == 2, "the quota to go")
    runnel("quota", "unset", "--user", user, "--all").ok()
    wait_until(lambda: len(shown(runnel, "--user", user)) == 1, "the quota to go")
    assert f"no quota is set for user '{user}'" in runnel("quota", "unset", "--user", user, "--all").ok().errors


def test_what_applies_to_a_client(runnel: Runnel, new_name: NewName) -> None:
    user = f"u-{new_name()}"
    runnel("quota", "set", "--user", user, "producer_byte_rate=1000", "consumer_byte_rate=1000").ok()
    runnel("quota", "set", "--user", user, "--default", "client-id", "consumer_byte_rate=200").ok()
    runnel("quota", "set", "--user", user, "--client-id", "app", "consumer_byte_rate=30").ok()
    wait_until(lambda: len(shown(runnel, "--user", user)) == 4, "the quotas")

    def applied(*arguments: str) -> dict[str, float]:
        document = runnel("quota", "describe", "--user", user, *arguments, "--json").ok().document
        return {row["quota"]: row["value"] for row in document["quotas"] if row["value"] is not None}

    assert applied("--client-id", "app") == {"producer_byte_rate": 1000.0, "consumer_byte_rate": 30.0}
    assert applied("--client-id", "other") == {"producer_byte_rate": 1000.0, "consumer_byte_rate": 200.0}
    text = runnel("quota", "describe", "--user", user, "--client-id", "app").ok().text
    assert f"user '{user}', client-id 'app'" in text
    for arguments in ((), ("--client-id", "app"), ("--default", "client-id")):
        runnel("quota", "unset", "--user", user, *arguments, "--all").ok()


def test_quotas_of_addresses(runnel: Runnel) -> None:
    runnel("quota", "set", "--ip", "10.9.8.7", "connection_creation_rate=5").ok()
    wait_until(lambda: ["-", "-", "10.9.8.7", "connection_creation_rate", "5"] in shown(runnel), "the quota")
    runnel("quota", "unset", "--ip", "10.9.8.7", "connection_creation_rate").ok()


def test_a_dry_run_sets_nothing(runnel: Runnel, new_name: NewName) -> None:
    user = f"u-{new_name()}"
    assert runnel("quota", "set", "-u", user, "producer_byte_rate=1", "--dry-run").ok().text.startswith("would set ")
    assert shown(runnel, "--user", user) == []
    refused = runnel("quota", "set", "-u", user, "producer_byte_rate=-1")
    assert refused.exit_code == 2


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_life_of_a_user(runnel: Runnel, new_name: NewName, mechanism: str) -> None:
    name = f"u-{new_name()}"
    made = runnel("user", "create", name, "--password-file", "-", "-m", mechanism.lower(), stdin=b"secret\n").ok()
    assert made.text == f"set the password of user '{name}' ({mechanism})\n"
    wait_until(lambda: runnel("user", "list", name).exit_code == 0, "the user")
    assert runnel("user", "list", name).ok().lines[1].split() == [name, mechanism, "4096"]
    assert runnel("user", "list", name, "--json").ok().document == [
        {"user": name, "mechanisms": [{"mechanism": mechanism, "iterations": 4096}]}
    ]
    assert runnel("user", "delete", name).ok().text == f"deleted user '{name}'\n"
    wait_until(lambda: runnel("user", "list", name).exit_code == 1, "the user to go")
    gone = runnel("user", "delete", name)
    assert (gone.exit_code, gone.errors) == (1, f"Error: user '{name}' does not exist\n")


def test_a_password_is_made_up(runnel: Runnel, new_name: NewName) -> None:
    name = f"u-{new_name()}"
    document = runnel("user", "create", name, "--random", "--json").ok().document
    assert len(document["password"]) >= 20
    wait_until(lambda: runnel("user", "list", name).exit_code == 0, "the user")
    (row,) = runnel("user", "list", name, "--json").ok().document
    assert [each["mechanism"] for each in row["mechanisms"]] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    runnel("user", "delete", name).ok()
    asked = runnel("user", "create", name)
    assert asked.exit_code == 2
    assert "nobody is there to be asked" in asked.errors
