"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44)."""

from __future__ import annotations

from typing import Any

from differential.plays import Play, scenario

DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
UNKNOWN, ANY, TOPIC, GROUP_OLD, BROKER, LOGGER, METRICS, GROUP = 0, 1, 2, 3, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@scenario(DESCRIBE_CONFIGS)
def describe_topic_configs(play: Play) -> None:
    plain = play.shared("configs-plain")[0]
    odd = play.shared("configs-odd", 1, {"retention.ms": "1000", "cleanup.policy": "compact,delete"})[0]

    def describe(name: str, keys: list[str] | None = None, kind: int = TOPIC, **options: Any) -> None:
        row = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        play.ask({"resources": [row], **options}, settle=True)

    for name in (plain, odd):
        describe(name)
        describe(name, include_synonyms=True)
        describe(name, include_synonyms=True, include_documentation=True)
    describe(odd, ["retention.ms", "nope"])
    describe(odd, [])
    for bad in ("nope", "a b", "", "__cluster_metadata"):
        describe(bad)
    describe("__consumer_offsets")
    for kind in (UNKNOWN, ANY, GROUP_OLD, 99, -1):
        describe("x", kind=kind)
    rows = [
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["retention.ms"]} for name in (odd, odd)
    ]
    play.ask({"resources": rows})
    play.ask({"resources": []})


@scenario(DESCRIBE_CONFIGS)
def describe_broker_configs(play: Play) -> None:
    def describe(name: str, keys: list[str] | None = None, kind: int = BROKER, **options: Any) -> None:
        row = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        play.ask({"resources": [row], **options}, settle=True)

    describe("1")
    describe("1", include_synonyms=True, include_documentation=True)
    describe("")
    describe("", include_synonyms=True)
    describe("1", ["log.retention.ms", "nope"], include_synonyms=True)
    for bad in ("2", "x", "-1", " 1"):
        describe(bad)
    for name in ("1", "", "2", "x"):
        describe(name, kind=LOGGER)
    for kind in (METRICS, GROUP):
        describe("nobody", kind=kind)
        describe("", kind=kind)
    rows = [{"resource_type": kind, "resource_name": "1", "configuration_keys": ["a"]} for kind in (BROKER, UNKNOWN)]
    play.ask({"resources": rows})


def change(play: Play, name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, **options: Any) -> None:
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    play.ask(
        {
            "resources": [{"resource_type": kind, "resource_name": name, "configs": rows}],
            "validate_only": False,
            **options,
        }
    )


CHANGED_KEYS = ["log.retention.ms", "log.retention.hours", "log.roll.ms", "num.partitions"]


def described(play: Play, name: str, kind: int = TOPIC) -> None:
    keys = CHANGED_KEYS if kind == BROKER else None
    row = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    play.both.ask(DESCRIBE_CONFIGS, 4, {"resources": [row], "include_synonyms": True}, settle=True)


@scenario(INCREMENTAL_ALTER_CONFIGS)
def change_topic_configs(play: Play) -> None:
    name = play.topic("changed")
    change(play, name, ("retention.ms", SET, "1000"), validate_only=True)
    described(play, name)
    change(play, name, ("retention.ms", SET, "1000"), ("segment.bytes", SET, "2000000"))
    described(play, name)
    change(play, name, ("cleanup.policy", APPEND, "compact"), ("segment.bytes", DELETE, None))
    described(play, name)
    change(play, name, ("cleanup.policy", SUBTRACT, "delete"))
    described(play, name)
    for changes in (
        (("nope", SET, "1"),),
        (("nope", DELETE, None),),
        (("retention.ms", SET, None),),
        (("retention.ms", SET, "x"),),
        (("retention.ms", APPEND, "1"),),
        (("retention.ms", 9, "1"),),
        (("cleanup.policy", APPEND, "keep"),),
        (("cleanup.policy", APPEND, None),),
        (("cleanup.policy", SUBTRACT, "nope"),),
        (("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        (("", SET, "1"),),
        (),
    ):
        change(play, name, *changes)
    described(play, name)
    for bad in ("nope", "a b", "", "__cluster_metadata"):
        change(play, bad, ("retention.ms", SET, "1"))
        change(play, bad, ("retention.ms", SUBTRACT, "1"))
    for kind in (UNKNOWN, ANY, GROUP_OLD, 99):
        change(play, "x", ("a", SET, "1"), kind=kind)
    play.ask({"resources": []})
    twice = {"resource_type": TOPIC, "resource_name": name, "configs": []}
    play.ask({"resources": [twice, twice]})


@scenario(INCREMENTAL_ALTER_CONFIGS)
def change_broker_configs(play: Play) -> None:
    for name in ("1", ""):
        change(play, name, ("log.retention.ms", SET, "3600000"), ("log.roll.ms", SET, "70000"), kind=BROKER)
        described(play, name, BROKER)
        described(play, "1", BROKER)
        change(play, name, ("num.partitions", SET, "7"), kind=BROKER)
        change(play, name, ("nope", SET, "7"), kind=BROKER, validate_only=True)
        change(play, name, ("log.retention.ms", SET, "x"), kind=BROKER)
        change(play, name, ("log.retention.ms", SET, None), kind=BROKER)
        change(play, name, ("log.retention.ms", APPEND, "1"), kind=BROKER)
        change(play, name, ("log.retention.ms", DELETE, None), ("log.roll.ms", DELETE, None), kind=BROKER)
        described(play, name, BROKER)
    for bad in ("2", "x", "-1"):
        change(play, bad, ("log.roll.ms", SET, "70000"), kind=BROKER)


@scenario(ALTER_CONFIGS)
def replace_topic_configs(play: Play) -> None:
    name = play.topic("replaced", 1, {"retention.ms": "5"})

    def replace(topic: str, *configs: tuple[str, str | None], kind: int = TOPIC, validate_only: bool = False) -> None:
        rows = [{"name": key, "value": value} for key, value in configs]
        resource = {"resource_type": kind, "resource_name": topic, "configs": rows}
        play.ask({"resources": [resource], "validate_only": validate_only})

    replace(name, ("segment.bytes", "2000000"), validate_only=True)
    described(play, name)
    replace(name, ("segment.bytes", "2000000"))
    described(play, name)
    for configs in (
        (("nope", "1"),),
        (("retention.ms", None),),
        (("retention.ms", "x"),),
        (("retention.ms", "1"), ("retention.ms", "2")),
    ):
        replace(name, *configs)
    replace(name)
    described(play, name)
    for bad in ("nope", "a b", ""):
        replace(bad, ("retention.ms", "1"))
    replace("9", kind=BROKER)
    replace("x", kind=UNKNOWN)
    replace("x", kind=GROUP_OLD)
