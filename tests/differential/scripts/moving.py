"""AlterReplicaLogDirs (34), ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46)."""

from __future__ import annotations

from typing import Any

from differential.plays import Play, scenario

ALTER_LOG_DIRS, ELECT, REASSIGN, LIST_MOVES = 34, 43, 45, 46
IN_TIME = {"timeout_ms": 30_000}
PREFERRED, UNCLEAN = 0, 1


def topic(play: Play) -> str:
    return play.shared("moving", 2)[0]


@scenario(ALTER_LOG_DIRS)
def move_between_directories(play: Play) -> None:
    name = topic(play)
    for path in ("/nowhere", "", "relative"):
        for where, partitions in ((name, [0, 1]), (name, [7, -1]), ("nope", [0]), ("", [0])):
            play.ask({"dirs": [{"path": path, "topics": [{"name": where, "partitions": partitions}]}]})
    play.ask({"dirs": []})
    play.ask({"dirs": [{"path": "/nowhere", "topics": []}]})


@scenario(ELECT)
def elect(play: Play) -> None:
    name = topic(play)
    for kind in (PREFERRED, UNCLEAN, 5, -1):
        for where, partitions in ((name, [0, 1]), (name, [7, -1]), (name, []), ("nope", [0]), ("", [0]), ("a b", [0])):
            rows = [{"topic": where, "partitions": partitions}]
            play.ask({"election_type": kind, "topic_partitions": rows, **IN_TIME})
        play.ask({"election_type": kind, "topic_partitions": [], **IN_TIME})
        play.ask({"election_type": kind, "topic_partitions": None, **IN_TIME})


@scenario(REASSIGN)
def reassign(play: Play) -> None:
    name = topic(play)

    def move(where: str, index: int, replicas: list[int] | None, **options: Any) -> None:
        rows = [{"name": where, "partitions": [{"partition_index": index, "replicas": replicas}]}]
        play.ask({"topics": rows, **IN_TIME, **options})

    for replicas in ([1], None, [], [1, 1], [7], [1, 7], [-1]):
        move(name, 0, replicas)
        move(name, 0, replicas, allow_replication_factor_change=False)
    for where, index in ((name, 7), (name, -1), ("nope", 0), ("", 0), ("a b", 0)):
        move(where, index, [1])
        move(where, index, None)
    twice = {"name": name, "partitions": [{"partition_index": 0, "replicas": [1]}] * 2}
    play.ask({"topics": [twice], **IN_TIME})
    play.ask({"topics": [{"name": name, "partitions": []}], **IN_TIME})
    play.ask({"topics": [], **IN_TIME})


@scenario(LIST_MOVES)
def list_moves(play: Play) -> None:
    name = topic(play)
    for where, indexes in ((name, [0, 1]), (name, [7]), (name, []), ("nope", [0]), ("", [0])):
        play.ask({"topics": [{"name": where, "partition_indexes": indexes}], **IN_TIME})
    play.ask({"topics": [], **IN_TIME})
    play.ask({"topics": None, **IN_TIME})
