"""ApiVersions (18), DescribeLogDirs (35), DescribeCluster (60), FindCoordinator (10)."""

from __future__ import annotations

from typing import Any

from differential.plays import Play, batch, scenario

API_VERSIONS, DESCRIBE_LOG_DIRS, DESCRIBE_CLUSTER, FIND_COORDINATOR = 18, 35, 60, 10


@scenario(API_VERSIONS)
def api_versions(play: Play) -> None:
    for name, version in (
        ("librdkafka", "2.6.1"),
        ("", "1"),
        ("a", ""),
        ("-a", "1"),
        ("a b", "1"),
        ("a.b-c", "1.0-rc.1"),
        ("a-", "1"),
        ("é", "1"),
        ("a_b", "1"),
    ):
        play.ask({"client_software_name": name, "client_software_version": version})


@scenario(DESCRIBE_LOG_DIRS)
def describe_log_dirs(play: Play) -> None:
    name, new = play.shared("log-dirs", 2)
    if new:
        play.produce(name, batch(b"a", b"b"))
        play.produce(name, batch(b"c" * 100), 1)
    for topic, partitions in (
        (name, [0, 1]),
        (name, [1]),
        (name, [7]),
        (name, []),
        ("nope", [0]),
        ("", [0]),
        ("a b", [0]),
    ):
        play.ask({"topics": [{"topic": topic, "partitions": partitions}]})
    play.ask({"topics": [{"topic": name, "partitions": [0]}, {"topic": name, "partitions": [1]}]})
    play.ask({"topics": []})
    play.ask({"topics": None})


@scenario(DESCRIBE_CLUSTER)
def describe_cluster(play: Play) -> None:
    for kind in (1, 2, 0, 3, -1):
        for operations in (False, True):
            for fenced in (False, True):
                play.ask(
                    {
                        "endpoint_type": kind,
                        "include_cluster_authorized_operations": operations,
                        "include_fenced_brokers": fenced,
                    }
                )


@scenario(FIND_COORDINATOR)
def find_coordinators(play: Play) -> None:
    def find(*keys: str, kind: int = 0) -> None:
        body: dict[str, Any] = {"coordinator_keys": list(keys)} if play.version >= 4 else {"key": keys[0]}
        play.ask({**body, "key_type": kind})

    find("group")
    find("")
    find("one", "two", "one")
    for kind in (1, 2, 3, -1):
        find("x", kind=kind)
