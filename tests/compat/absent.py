"""What a client does not have: decided here, with the reason, never by catching an error.

A cell is "n/a" if and only if it is in this table. A feature that is missing from a column's program and from here
is a FAIL.
"""

from __future__ import annotations

_CONFLUENT = "not in confluent-kafka's AdminClient"
_AIOKAFKA = "not in AIOKafkaAdminClient"
_KAFKA_PYTHON = "not in KafkaAdminClient"
_KAFKAJS = "not in kafkajs' admin client"
_RUST = "not in the rdkafka crate's AdminClient"
_CLASSIC_ONLY = "speaks the classic group protocol only"

# column -> reason -> the ids of its features
_TABLE: dict[str, dict[str, str]] = {
    "confluent": {
        _CONFLUENT: "config-resources group-offsets-delete log-dirs producers reassignments quorum features quotas",
    },
    "aiokafka": {
        _AIOKAFKA: "configs-alter group-configs config-resources offsets-list group-offsets-alter group-offsets-delete "
        "groups-delete log-dirs producers elect-leaders reassignments quorum features scram quotas",
        "has eager assignors only": "group-cooperative",
        _CLASSIC_ONLY: "kip848 kip848-regex kip848-migration",
        "shows no throttle time": "throttle",
    },
    "kafka-python": {
        _KAFKA_PYTHON: "quotas",
        "refuses null header values itself": "null-headers",
        _CLASSIC_ONLY: "kip848 kip848-regex kip848-migration",
    },
    "java-4": {"removed in kafka-clients 4": "configs-alter-full"},
    "java-3.9": {
        "since kafka-clients 4": "kip848-regex group-configs config-resources",
    },
    "kafkajs": {
        _KAFKAJS: "configs-alter group-configs config-resources group-offsets-delete log-dirs producers elect-leaders "
        "quorum features scram quotas",
        "cannot send null header values": "null-headers",
        "has eager assignors only": "group-cooperative",
        "has no group.instance.id": "group-static",
        _CLASSIC_ONLY: "kip848 kip848-regex kip848-migration",
        "shows no throttle time": "throttle",
    },
    "rdkafka": {
        _RUST: "configs-alter config-resources offsets-list group-offsets-delete log-dirs producers "
        "elect-leaders reassignments quorum features scram quotas",
        "the crate does not know the config source that brokers answer for groups": "group-configs",
    },
}

ABSENT: dict[tuple[str, str], str] = {
    (column, feature): reason
    for column, reasons in _TABLE.items()
    for reason, features in reasons.items()
    for feature in features.split()
}
