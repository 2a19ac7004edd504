"""Scenarios of the areas "Topics and configs" and "Groups and offsets, administered"."""

from __future__ import annotations

from clients.drivers import Committed, Sent
from clients.drivers.seen import GroupSeen, MemberSeen
from compat.python import (
    GROUP_NOT_FOUND,
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    NON_EMPTY_GROUP,
    TOPIC_EXISTS,
    UNKNOWN_TOPIC,
    Run,
    equal,
    numbered,
    poll_until,
    read,
    scenario,
)
from harness.conditions import wait_until

BASE_MS = 1_700_000_000_000


@scenario("topic-create")
def topic_create(run: Run) -> None:
    name = run.topic(3, {"retention.ms": "777000"})
    equal(sorted(run.admin.describe_topic(name)), [0, 1, 2], "partitions")
    equal(run.admin.configs("topic", name)["retention.ms"].value, "777000", "retention.ms")
    run.refused(TOPIC_EXISTS, lambda: run.admin.create_topic(name))
    run.refused(INVALID_CONFIG, lambda: run.admin.create_topic(run.name("bad"), 1, {"retention.ms": "soon"}))
    run.admin.create_topic(run.name("wish"), 3, validate_only=True)
    equal(run.name("wish") in run.admin.topic_names(), False, "the topic that was only validated exists")


@scenario("topic-describe")
def topic_describe(run: Run) -> None:
    name = run.topic(5)
    equal(name in run.admin.topic_names(), True, "listed")
    (broker,) = run.admin.describe_cluster().addresses
    equal(run.admin.describe_topic(name), dict.fromkeys(range(5), broker), "leaders")
    if not run.admin.describing_creates:
        run.refused(UNKNOWN_TOPIC, lambda: run.admin.describe_topic(run.name("nothing")))


@scenario("topic-delete")
def topic_delete(run: Run) -> None:
    name = run.topic()
    run.admin.delete_topic(name)
    wait_until(lambda: name not in run.admin.topic_names(), "no topic")
    run.refused(UNKNOWN_TOPIC, lambda: run.admin.delete_topic(name))


@scenario("partitions-create")
def partitions_create(run: Run) -> None:
    name = run.topic(2)
    run.admin.create_partitions(name, 5)
    wait_until(lambda: sorted(run.admin.describe_topic(name)) == [0, 1, 2, 3, 4], "five partitions")
    run.refused(INVALID_PARTITIONS, lambda: run.admin.create_partitions(name, 3))
    run.client.produce(name, [Sent(b"new", partition=4)])
    equal([one.value for one in run.client.consume(name, 1, partition=4)], [b"new"], "the record of a new partition")


@scenario("configs-describe")
def configs_describe(run: Run) -> None:
    found = run.admin.configs("topic", run.topic(configs={"retention.bytes": "1000"}))
    equal(found["retention.bytes"], ("1000", False), "what was set")
    equal(found["segment.bytes"], ("1073741824", True), "what was not")
    (broker,) = run.admin.describe_cluster().addresses
    equal(run.admin.configs("broker", str(broker))["num.partitions"].value, "1", "the broker's num.partitions")


@scenario("configs-alter")
def configs_alter(run: Run) -> None:
    name = run.topic(configs={"retention.bytes": "5000"})
    run.admin.alter_configs("topic", name, {"retention.ms": "777000"}, reset=["retention.bytes"])

    def changed() -> bool:
        found = run.admin.configs("topic", name)
        return (found["retention.ms"].value, found["retention.bytes"].value) == ("777000", "-1")

    wait_until(changed, "both changes")
    run.refused(INVALID_CONFIG, lambda: run.admin.alter_configs("topic", name, {"retention.ms": "soon"}))


@scenario("configs-alter-full")
def configs_alter_full(run: Run) -> None:
    name = run.topic(configs={"retention.bytes": "5000"})
    run.admin.alter_configs_full(name, {"retention.ms": "777000"})
    wait_until(lambda: run.admin.configs("topic", name)["retention.ms"].value == "777000", "the change")
    left = "5000" if run.admin.full_alter_keeps_others else "-1"
    equal(run.admin.configs("topic", name)["retention.bytes"].value, left, "what was not named")


@scenario("group-configs")
def group_configs(run: Run) -> None:
    group = run.name()
    run.admin.alter_configs("group", group, {"consumer.session.timeout.ms": "46000"})

    def changed() -> bool:
        return bool(run.admin.configs("group", group)["consumer.session.timeout.ms"].value == "46000")

    wait_until(changed, "the change")


@scenario("config-resources")
def config_resources(run: Run) -> None:
    group = run.name()
    run.admin.alter_configs("group", group, {"consumer.session.timeout.ms": "46000"})
    wait_until(lambda: group in run.admin.config_resources().get("group", set()), "the group in the list")
    equal(run.topic() in run.admin.config_resources()["topic"], True, "a topic in the list")


@scenario("records-delete")
def records_delete(run: Run) -> None:
    name = run.topic()
    run.client.produce(name, numbered(10))
    equal(run.admin.delete_records(name, 0, 4), 4, "the low watermark of the answer")
    equal(run.client.watermarks(name), (4, 10), "watermarks")
    equal([one.offset for one in run.client.consume(name, 6)], list(range(4, 10)), "what is left")


@scenario("offsets-list")
def offsets_list(run: Run) -> None:
    name = run.topic(configs={"retention.ms": "-1"})
    run.client.produce(name, [Sent(b"x", timestamp_ms=BASE_MS + later_ms) for later_ms in (0, 500, 200)])
    for spec, offset in (("earliest", 0), ("latest", 3), ("max-timestamp", 1), (BASE_MS + 100, 1)):
        equal(run.admin.list_offset(name, spec), offset, f"the offset of {spec}")


# ---- groups


@scenario("groups-describe")
def groups_describe(run: Run) -> None:
    name = run.topic(2)
    member = run.member(name, name, client_id="who")
    poll_until(lambda: len(member.assigned()) == 2, "an assignment", member)
    equal(name in run.admin.group_names(), True, "listed")
    wait_until(lambda: run.admin.describe_group(name).state == "Stable", "a stable group")
    equal(run.admin.describe_group(name), GroupSeen("Stable", [MemberSeen("who", {0, 1})]), "the group")
    run.end(member)
    wait_until(lambda: run.admin.describe_group(name) == GroupSeen("Empty", []), "an empty group")


def _committed_group(run: Run) -> str:
    """A group without members that has committed 5 on each of two partitions; named as its topic."""
    name = run.topic(2)
    for partition in (0, 1):
        run.client.produce(name, [Sent(b"%d" % number, partition=partition) for number in range(8)])
    member = run.member(name, name)
    poll_until(lambda: len(member.assigned()) == 2, "an assignment", member)
    member.commit({0: Committed(5, "five"), 1: Committed(5, "")})
    run.end(member)
    return name


@scenario("group-offsets-list")
def group_offsets_list(run: Run) -> None:
    equal(run.admin.group_offsets(_committed_group(run)), {0: (5, "five"), 1: (5, "")}, "offsets")


@scenario("group-offsets-alter")
def group_offsets_alter(run: Run) -> None:
    name = _committed_group(run)
    run.admin.alter_group_offsets(name, name, {0: 8, 1: 2})
    equal({index: offset for index, (offset, _) in run.admin.group_offsets(name).items()}, {0: 8, 1: 2}, "offsets")
    found = read(6, "what is left", run.member(name, name))
    equal([(one.partition, one.offset) for one in found], [(1, offset) for offset in range(2, 8)], "what is read")


@scenario("group-offsets-delete")
def group_offsets_delete(run: Run) -> None:
    name = _committed_group(run)
    run.admin.delete_group_offsets(name, name, [0])
    equal(run.admin.group_offsets(name), {1: (5, "")}, "offsets")


@scenario("groups-delete")
def groups_delete(run: Run) -> None:
    name = _committed_group(run)
    member = run.member(name, name)
    poll_until(lambda: len(member.assigned()) == 2, "an assignment", member)
    run.refused(NON_EMPTY_GROUP, lambda: run.admin.delete_group(name))
    run.end(member)
    run.admin.delete_group(name)
    equal(name in run.admin.group_names(), False, "listed")
    run.refused(GROUP_NOT_FOUND, lambda: run.admin.delete_group(name))
