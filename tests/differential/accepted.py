"""The differences that are accepted, each with its reason. docs/differences.md is made from this table.

A row that never matches any more fails the test: what became equal is deleted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from differential.compare import ABSENT
from differential.judging import Accepted, asks
from runnel.wire.apis import ApiKey


def negative(value: object) -> bool:
    return isinstance(value, int) and value < 0


def no_isolation_level(value: object) -> bool:
    return value not in (0, 1)


def _id(topic: Mapping[str, Any]) -> bool:
    """Whether the topic has an id other than zero."""
    return bool(getattr(topic.get("topic_id"), "int", 1))


NOT_YET = "transactions are not built yet"

EVERYWHERE = [
    Accepted(
        "an error comes with a message where Kafka sends none",
        "a message says what to do",
        (),
        "*error_message",
        kafka=(None, ""),
        runnel="<text>",
    ),
    Accepted(
        "topics and brokers have a config `acks.all.flush`",
        "[durability](durability.md) can be chosen per topic",
        (ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_CONFIGS),
        "*.configs",
        kafka=ABSENT,
        where=r"\[name=acks.all.flush\]$",
    ),
]

PRODUCE = [
    Accepted(
        "a Produce with null in place of records is refused; Kafka fails and never answers",
        "a client should not wait for ever",
        (ApiKey.PRODUCE,),
        "connection",
        kafka="silent",
        runnel="open",
        request=asks(records=None),
    ),
    Accepted(
        "the log start offset beside an error is -1",
        "nothing was appended, and no client reads it there",
        (ApiKey.PRODUCE,),
        "responses.partition_responses.log_start_offset",
        kafka=lambda value: isinstance(value, int) and value >= 0,
        runnel=-1,
    ),
    Accepted(
        "bytes after a batch that are no whole batch are refused with INVALID_RECORD; Kafka drops up to 11 of them",
        "a producer that sends them is broken, and should hear of it",
        (ApiKey.PRODUCE,),
        "responses.partition_responses.*",
        where="produce-more-than-a-batch",
    ),
    Accepted(
        "a codec that does not exist is UNSUPPORTED_COMPRESSION_TYPE; Kafka fails with UNKNOWN_SERVER_ERROR",
        "the code says what is wrong",
        (ApiKey.PRODUCE,),
        "responses.partition_responses.error_code",
        kafka=-1,
        runnel=76,
    ),
    Accepted(
        "transactional batches are refused with INVALID_TXN_STATE",
        NOT_YET,
        (ApiKey.PRODUCE,),
        "responses.partition_responses.error_code",
        kafka=53,
        runnel=48,
    ),
    Accepted(
        "a batch that was sent again is answered without a time; Kafka answers with its largest timestamp",
        "the time of its records is the producer's, as in the first answer",
        (ApiKey.PRODUCE,),
        "responses.partition_responses.log_append_time*",
        kafka=lambda value: value != -1,
        runnel=-1,
    ),
    Accepted(
        "the records of a batch that is refused for its timestamps are not listed one by one",
        "batches are not opened",
        (ApiKey.PRODUCE,),
        "responses.partition_responses.record_errors",
        runnel=ABSENT,
    ),
    Accepted(
        "an empty topic name is UNKNOWN_TOPIC_ID before topic ids came (version 13)",
        "names and ids share one path, and no topic is called that",
        (ApiKey.PRODUCE, ApiKey.FETCH),
        "responses.*.error_code",
        kafka=3,
        runnel=100,
        versions=range(13),
    ),
]

READING = [
    Accepted(
        "negative sizes count as 0; Kafka fails with UNKNOWN_SERVER_ERROR",
        "the reader gets the batch that it must get anyway",
        (ApiKey.FETCH,),
        "responses*",
        request=asks(max_bytes=negative, partition_max_bytes=negative),
    ),
    Accepted(
        "an isolation level that does not exist counts as read_uncommitted; Kafka fails with UNKNOWN_SERVER_ERROR",
        "there is nothing to fail at",
        (ApiKey.FETCH, ApiKey.LIST_OFFSETS),
        "*",
        request=asks(isolation_level=no_isolation_level),
    ),
    Accepted(
        "followers are refused as a whole",
        "there is no replication yet",
        (ApiKey.FETCH,),
        "*",
        request=asks(replica_id=lambda value: value >= 0),
    ),
    Accepted(
        "the record with the largest timestamp is never one that DeleteRecords removed",
        "Kafka still finds it in its segment, below the log start offset",
        (ApiKey.LIST_OFFSETS,),
        "topics.partitions.*",
        runnel=-1,
        request=asks(timestamp=-3),
    ),
]

TOPICS = [
    Accepted(
        "an unknown topic that Metadata may create is there in the reply; Kafka says UNKNOWN_TOPIC_OR_PARTITION first",
        "nobody needs to ask again",
        (ApiKey.METADATA,),
        "topics.*",
        request=lambda body: bool(body.get("topics")) and body.get("allow_auto_topic_creation", True),
    ),
    Accepted(
        "an empty topic name without a cursor is INVALID_TOPIC_EXCEPTION; Kafka fails with UNKNOWN_SERVER_ERROR",
        "the code says what is wrong",
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS,),
        "*",
        request=lambda body: asks(cursor=None)(body) and asks(name="")(body),
    ),
    Accepted(
        "a topic asked for by neither name nor id is UNKNOWN_TOPIC_ID; Kafka fails with UNKNOWN_SERVER_ERROR",
        "the code says what is wrong",
        (ApiKey.METADATA,),
        "*",
        request=lambda body: any(topic.get("name", "") is None and not _id(topic) for topic in body["topics"] or ()),
        versions=range(12, 99),
    ),
    Accepted(
        "a timeout of 0 ms or less is no timeout; Kafka does nothing then, and says REQUEST_TIMED_OUT",
        "changes are complete when they are answered, and old clients leave the timeout at 0",
        (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS),
        "*",
        request=lambda body: body.get("timeout_ms", 0) <= 0,
    ),
]

CONFIGS = [
    Accepted(
        "broker configs of what Runnel does not have are not shown",
        "a setting that does nothing would mislead",
        (ApiKey.DESCRIBE_CONFIGS,),
        "results.configs",
        runnel=ABSENT,
        where="resource_type=4",
    ),
    Accepted(
        "Runnel has broker configs of its own",
        "[configuration](configuration.md) lists them",
        (ApiKey.DESCRIBE_CONFIGS,),
        "results.configs",
        kafka=ABSENT,
        where=r"resource_type=4.*\[name=(cluster.id|max.partitions.per.broker|group.consumer.regex.*|.*throttled.rate|replica.alter.*)\]$",
    ),
    Accepted(
        "`listeners`, `log.dirs`, `node.id`, `broker.id` and `process.roles` say how this very process was started",
        "each broker was started in its own way",
        (ApiKey.DESCRIBE_CONFIGS,),
        "results.configs.*",
        where=r"resource_type=4.*\[name=(listeners|log.dirs|node.id|broker.id|process.roles|offsets.topic.replication.factor)\]",
    ),
    Accepted(
        "`max.connections`, `max.connections.per.ip` and `queued.max.request.bytes` have finite defaults",
        "everything has a limit",
        (ApiKey.DESCRIBE_CONFIGS,),
        "results.configs.*value",
        where=r"resource_type=4.*\[name=(max.connections|max.connections.per.ip|queued.max.request.bytes)\]",
    ),
    Accepted(
        "of a bad name of a topic and a bad change to it, the name is told; Kafka tells the change (INVALID_CONFIG)",
        "the name was looked at first",
        (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
        "responses.error_code",
        kafka=(40, 42),
        runnel=(17, 42),
    ),
    Accepted(
        "a broker config that nobody knows is refused with INVALID_REQUEST; Kafka stores it",
        "a misspelt name should not look as if it worked",
        (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
        "responses.error_code",
        kafka=0,
        runnel=42,
        where="resource_type=4,",
    ),
    Accepted(
        "the loggers of a broker are Runnel's own",
        "they are other programs",
        (ApiKey.DESCRIBE_CONFIGS,),
        "results.configs*",
        where="resource_type=8,",
    ),
    Accepted(
        "the default of `group.consumer.assignment.interval.ms` is 0",
        "an assignment is cheap here; waiting a second for more members is not",
        (ApiKey.DESCRIBE_CONFIGS,),
        "results.configs.synonyms.value",
        kafka="1000",
        runnel="0",
        where=r"group.consumer.assignment.interval.ms",
    ),
    Accepted(
        "the default of `group.initial.rebalance.delay.ms` is 0",
        "on one broker, 3 s per first join buy nothing",
        (ApiKey.DESCRIBE_CONFIGS,),
        "results.configs.synonyms.value",
        kafka="3000",
        runnel="0",
    ),
    Accepted(
        "an operation on configs that does not exist is INVALID_REQUEST; Kafka fails with UNKNOWN_SERVER_ERROR",
        "the code says what is wrong",
        (ApiKey.INCREMENTAL_ALTER_CONFIGS,),
        "responses.error_code",
        kafka=-1,
        request=asks(config_operation=lambda value: value not in range(4)),
    ),
]

ADMIN = [
    Accepted(
        "the quorum's node is reached where the broker is",
        "there is no listener for controllers alone",
        (ApiKey.DESCRIBE_QUORUM,),
        "nodes.listeners",
    ),
    Accepted(
        "an empty salted password is UNACCEPTABLE_CREDENTIAL; Kafka fails with UNKNOWN_SERVER_ERROR",
        "the code says what is wrong",
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS,),
        "results.error_code",
        kafka=-1,
        runnel=93,
    ),
]

GROUPS = [
    Accepted(
        "a subscription by pattern is resolved while its join is answered; Kafka resolves it afterwards",
        "the member has its partitions one heartbeat earlier",
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
        "*epoch",
        request=lambda body: bool(body.get("subscribed_topic_regex")) or "by-pattern" in str(body.get("group_ids")),
    ),
    Accepted(
        "a join that is refused for its protocols leaves no group behind; in Kafka an empty one stays in memory",
        "there is nothing to remember",
        (ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS),
        "groups*",
        where="join-refused",
    ),
    Accepted(
        "while a group rebalances, DescribeGroups shows no assignments; Kafka shows those of the last generation",
        "they are void",
        (ApiKey.DESCRIBE_GROUPS,),
        "groups.members.member_assignment",
        kafka=b"all",
        runnel=b"",
    ),
]

TRANSACTIONS = [
    Accepted(
        "transactional ids are refused with INVALID_REQUEST",
        NOT_YET,
        (ApiKey.INIT_PRODUCER_ID,),
        "*",
        request=lambda body: bool(body.get("transactional_id")),
    ),
    Accepted(
        "FindCoordinator for transactions and share groups is refused with INVALID_REQUEST",
        NOT_YET,
        (ApiKey.FIND_COORDINATOR,),
        "*",
        request=lambda body: body.get("key_type", 0) != 0,
    ),
    Accepted(
        "pages of all topics break elsewhere, as there is no topic `__transaction_state`",
        NOT_YET,
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS,),
        "*",
        request=lambda body: not body.get("topics") and body.get("response_partition_limit", 0) < 2000,
    ),
    Accepted(
        "there is no topic `__transaction_state`",
        NOT_YET,
        (),
        "*",
        runnel=ABSENT,
        where=r"\[(resource_name|name|topic)=__transaction_state\b",
    ),
]

NOT_SERVED: dict[str, tuple[ApiKey, ...]] = {
    "security is not built yet": (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ),
    NOT_YET: (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    ),
    "there is one broker, and it is its own quorum": (
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    ),
    "share and streams groups are not built": (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ),
}
"""Reason and the APIs that are not advertised for it."""
NO_FEATURES = ("kraft", "share", "streams", "transaction", "eligible.leader.replicas")

ADVERTISED = [
    *(
        Accepted(
            f"{key.name} ({key.value}) is not served",
            why,
            (ApiKey.API_VERSIONS,),
            "api_keys",
            runnel=ABSENT,
            where=rf"\[api_key={key.value}\]$",
        )
        for why, keys in NOT_SERVED.items()
        for key in keys
    ),
    *(
        Accepted(
            f"the feature `{name}.version` is not there",
            "what it switches is not built",
            (ApiKey.API_VERSIONS,),
            "*_features",
            runnel=ABSENT,
            where=rf"\[name={name}.version\]$",
        )
        for name in NO_FEATURES
    ),
]

SECTIONS: dict[str, list[Accepted]] = {
    "Everywhere": EVERYWHERE,
    "Produce": PRODUCE,
    "Fetch and ListOffsets": READING,
    "Topics": TOPICS,
    "Configs": CONFIGS,
    "Administration": ADMIN,
    "Groups": GROUPS,
    "Transactions": TRANSACTIONS,
    "ApiVersions": ADVERTISED,
}
ACCEPTED: list[Accepted] = [row for rows in SECTIONS.values() for row in rows]
