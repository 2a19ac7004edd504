"""Scenarios of the area "Cluster"."""

from __future__ import annotations

from clients.drivers import Sent
from compat.python import ELECTION_NOT_NEEDED, NO_REASSIGNMENT, Run, equal, numbered, scenario


@scenario("cluster-describe")
def cluster_describe(run: Run) -> None:
    found = run.admin.describe_cluster()
    equal(len(found.cluster_id or ""), 22, f"characters of the id {found.cluster_id}")
    equal(list(found.addresses.values()), [run.client.bootstrap], "addresses")
    equal(found.controller in found.addresses, True, f"the controller {found.controller} is a broker")


@scenario("log-dirs")
def log_dirs(run: Run) -> None:
    name = run.topic()
    run.client.produce(name, [Sent(b"x" * 1000)])
    size_bytes = run.admin.log_dir_bytes(name)
    equal(1000 < size_bytes < 2000, True, f"{size_bytes} bytes for a record of 1 000")


@scenario("producers")
def producers(run: Run) -> None:
    name = run.topic()
    run.client.produce(name, numbered(3), idempotent=True)
    ((producer_id, epoch, sequence),) = run.admin.producers(name)
    equal((producer_id >= 0, epoch, sequence), (True, 0, 2), f"producer {producer_id}: epoch, last sequence")


@scenario("elect-leaders")
def elect_leaders(run: Run) -> None:
    name = run.topic()
    before = run.admin.describe_topic(name)
    equal(run.admin.elect_leader(name, 0), ELECTION_NOT_NEEDED, "the answer")
    equal(run.admin.describe_topic(name), before, "leaders")


@scenario("reassignments")
def reassignments(run: Run) -> None:
    name = run.topic()
    (broker,) = run.admin.describe_cluster().addresses
    run.admin.reassign(name, 0, [broker])
    equal(run.admin.reassignments(), {}, "reassignments under way")
    run.refused(NO_REASSIGNMENT, lambda: run.admin.reassign(name, 0, None))
    equal(run.admin.describe_topic(name), {0: broker}, "leaders")


@scenario("quorum")
def quorum(run: Run) -> None:
    found = run.admin.quorum()
    equal(found.leader in found.voters, True, f"{found}: the leader is a voter")
    equal(found.high_watermark > 0, True, f"{found}: something is committed")


@scenario("features")
def features(run: Run) -> None:
    found = run.admin.features()
    equal(found.get("metadata.version", 0) > 0, True, f"{found}: metadata.version is finalized")
    equal(found.get("group.version"), 1, f"{found}: group.version")
    run.admin.update_feature("group.version", 1, validate_only=True)
    equal(run.admin.features(), found, "features")


@scenario("scram")
def scram(run: Run) -> None:
    user = run.name()
    run.admin.set_scram(user, 8192, "a secret")
    equal(run.admin.scram(user), [("SCRAM_SHA_256", 8192)], "mechanisms and iterations")
    run.admin.delete_scram(user)
    run.refused(RESOURCE_NOT_FOUND, lambda: run.admin.scram(user))


RESOURCE_NOT_FOUND = 91


@scenario("throttle")
def throttle(run: Run) -> None:
    # `compat.run` gave a quota to the client id that is named as the topic.
    name = run.topic()
    told_ms = run.client.throttle_ms(name, [Sent(b"x" * 10_000)] * 60, client_id=name)
    equal(told_ms > 0, True, f"told to wait {told_ms} ms: more than none")
    equal(len(run.client.consume(name, 60)), 60, "records")
