"""The rows of the card, in order: what is done and what is checked, the same in every column.

Each program names its scenarios by these ids, and its topics `<prefix>.<id>` so that `outside` finds them.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """One row."""

    id: str
    area: str
    title: str
    checked: str


def _rows(area: str, *rows: tuple[str, str, str]) -> list[Feature]:
    return [Feature(id, area, title, checked) for id, title, checked in rows]


FEATURES: list[Feature] = [
    *_rows(
        "Records",
        (
            "round-trip",
            "produce and consume",
            "500 keyed records: bytes, order, offsets on both sides; another client's decoder reads them",
        ),
        ("gzip", "compression gzip", "500 records; from outside: every batch has the codec, another decoder reads it"),
        ("snappy", "compression snappy", "the same"),
        ("lz4", "compression lz4", "the same"),
        ("zstd", "compression zstd", "the same"),
        ("acks", "acks 0, 1 and all", "the records of each are there, in order"),
        ("idempotent", "idempotent producer", "1 000 records in small batches; from outside: producer id, sequences"),
        ("batching", "batching and linger", "2 000 records in order; from outside: at most 200 batches"),
        ("headers", "record headers", "order, repeated names, empty values"),
        ("null-headers", "null header values", "null stays null"),
        ("nulls", "null and empty keys and values", "each stays what it was"),
        ("large", "large records", "three of 1 MiB, bytes equal"),
        ("too-large", "a record over the limit is refused", "the client reports it, the log stays empty"),
        ("partitions", "100 partitions", "one record into each, read back from three"),
        ("timestamps", "create time and log append time", "kept, and set by the broker"),
        ("auto-create", "topic created on first use", "the first record has offset 0"),
    ),
    *_rows(
        "Reading",
        ("seek-time", "seek by time", "offsets for four times, then read from there"),
        ("seek-ends", "seek to beginning, end, middle of a batch", "first record and position after each"),
        ("pause-resume", "pause and resume", "nothing of the paused partition, all of it afterwards"),
        ("tail", "wait at the end", "the next record wakes the consumer"),
        ("reset", "offset out of range", "the reset policy applies"),
        ("watermarks", "start and end offsets", "of an empty and of a filled partition"),
        ("compacted", "read a compacted topic", "the last value of each key, tombstones' keys gone, offsets kept"),
    ),
    *_rows(
        "Consumer groups",
        ("group-eager", "rebalance, eager assignor", "two members share, one leaves, each record read, all committed"),
        ("group-cooperative", "rebalance, cooperative assignor", "the first member keeps what it may keep"),
        ("group-static", "static membership (KIP-345)", "a restarted member gets the same partitions, no rebalance"),
        ("commit-metadata", "manual commit with metadata", "offset and text come back; a new member resumes there"),
        ("auto-commit", "auto commit", "what was read is committed when the member leaves"),
        ("kip848", "new group protocol (KIP-848)", "two members share, one leaves; commits; a new member resumes"),
        ("kip848-regex", "KIP-848, subscription by RE2 pattern", "the topics that match, and only they"),
        (
            "kip848-migration",
            "KIP-848, online migration",
            "a classic member and a new one share, then the new one alone",
        ),
    ),
    *_rows(
        "Topics and configs",
        ("topic-create", "create topics", "partitions and configs; validate only; refused twice"),
        ("topic-describe", "list and describe topics", "names, partitions, leaders; an unknown topic"),
        ("topic-delete", "delete topics", "gone; refused twice"),
        ("partitions-create", "add partitions", "count after; fewer is refused"),
        ("configs-describe", "describe configs", "value, source, default of a topic; a broker's"),
        ("configs-alter", "alter configs, incrementally", "set, delete; a bad value is refused"),
        ("configs-alter-full", "alter configs, as a whole", "what is not named goes back to its default"),
        ("group-configs", "configs of a group", "set and described"),
        ("config-resources", "list config resources", "the group with configs is listed"),
        ("records-delete", "delete records", "low watermark in the answer; the start has moved"),
        ("offsets-list", "list offsets", "earliest, latest, by time, largest timestamp (where the client can ask)"),
    ),
    *_rows(
        "Groups and offsets, administered",
        ("groups-describe", "list and describe groups", "state, members, assignment"),
        ("group-offsets-list", "list a group's offsets", "offset and metadata"),
        ("group-offsets-alter", "alter a group's offsets", "a member resumes there"),
        ("group-offsets-delete", "delete a group's offsets", "gone, the others stay"),
        ("groups-delete", "delete groups", "gone; refused while it has members"),
    ),
    *_rows(
        "Cluster",
        ("cluster-describe", "describe cluster", "id, controller, address"),
        ("log-dirs", "describe log dirs", "the bytes of a partition"),
        ("producers", "describe producers", "id, epoch and last sequence of an idempotent producer"),
        ("elect-leaders", "elect leaders", "preferred: not needed; the topic keeps its leader"),
        ("reassignments", "partition reassignments", "to where it is: accepted; none under way"),
        ("quorum", "describe metadata quorum", "leader, voters, high watermark"),
        ("features", "describe and update features", "finalized levels; validate only"),
        ("scram", "SCRAM users", "added, described with iterations, removed"),
        ("quotas", "client quotas, administered", "set, described, removed"),
        ("throttle", "client quotas, felt", "a producer over its byte rate is told to wait"),
    ),
]

AREAS = list(dict.fromkeys(feature.area for feature in FEATURES))
IDS = [feature.id for feature in FEATURES]
