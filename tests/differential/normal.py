"""What must differ between two brokers, and how it is made comparable: the declared table.

In: a reply as plain values. Out: the same with names, marks like "<host>", and batches taken apart. Everything that is
not in these tables is compared as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runnel.wire.batch import HEADER_BYTES, iterate_headers

if TYPE_CHECKING:
    from differential.sides import Side

GENERATED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$|^[\w-]{22}$")
FETCH, DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM = 1, 35, 55
OFFSETS_TOPIC = "__consumer_offsets"
RECENT_MS = 1_700_000_000_000


def _own(mark: str, own: Callable[[Side], Any]) -> Callable[[Side, Any], Any]:
    """The broker's own value becomes a mark; any other stays as it is."""
    return lambda side, value: mark if value == own(side) else value


def _text(side: Side, value: str | None) -> str | None:
    """Messages are for people: only whether there is one is compared."""
    return "<text>" if value else value


def _moment(side: Side, value: int) -> int | str:
    return "<a moment>" if value > RECENT_MS else value


def _positive(side: Side, value: int) -> int | str:
    return "<some>" if value > 0 else value


def _member(side: Side, value: str) -> Any:
    named = side.names.name("member", value)
    return GENERATED_ID.sub("<new>", named) if isinstance(named, str) else named


def _producer(side: Side, value: int) -> Any:
    named = side.names.name("producer", value)
    return "<new producer>" if isinstance(named, int) and named >= 0 else named


def _session(side: Side, value: int) -> Any:
    named = side.names.name("session", value)
    return "<new session>" if isinstance(named, int) and named > 1 else named


FIELDS: dict[str, Callable[[Side, Any], Any]] = {
    "host": _own("<host>", lambda side: side.host_and_port[0]),
    "port": _own("<port>", lambda side: side.host_and_port[1]),
    "cluster_id": _own("<cluster>", lambda side: side.cluster_id),
    "error_message": _text,
    "batch_index_error_message": _text,
    "documentation": _text,
    "log_append_time": _moment,
    "log_append_time_ms": _moment,
    "last_fetch_timestamp": _moment,
    "last_caught_up_timestamp": _moment,
    "last_timestamp": _moment,
    "producer_id": _producer,
    "session_id": _session,
    "member_id": _member,
    "leader": _member,
    "log_dir": lambda side, value: "<data directory>" if value.startswith("/") else value,
    "total_bytes": _positive,
    "usable_bytes": _positive,
    "records": lambda side, value: batches(side, value),
    "finalized_features_epoch": _positive,
    "subscribed_topic_names": lambda side, value: sorted(value),
}
"""By the name of the field, in whatever reply."""


FIELDS_OF_API: dict[tuple[int, str], Callable[[Side, Any], Any]] = {
    (DESCRIBE_QUORUM, "high_watermark"): _positive,
    (DESCRIBE_QUORUM, "log_end_offset"): _positive,
    (DESCRIBE_QUORUM, "leader_epoch"): _positive,
}
"""The same for one API: how long the metadata log is, how often its leader was elected."""


def _without_sizes(topic: dict[str, Any]) -> dict[str, Any]:
    """How many of its records a coordinator writes as one batch is its own affair."""
    return {**topic, "partitions": [{**partition, "partition_size": "<some>"} for partition in topic["partitions"]]}


def _without_aborted(partition: dict[str, Any]) -> dict[str, Any]:
    """Whether no transactions are aborted or none are told depends, without records, on how many bytes Kafka had left:
    it counts those of a batch that it cut off."""
    if partition["error_code"] or partition["records"]:
        return partition
    return {**partition, "aborted_transactions": partition["aborted_transactions"] or "<none>"}


def _merged(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Topics of a Fetch reply, each once: how often one is named depends on the order of the session's partitions."""
    merged: dict[str, dict[str, Any]] = {}
    for topic in topics:
        key = str(topic.get("topic", topic.get("topic_id")))
        known = merged.setdefault(key, {**topic, "partitions": []})
        known["partitions"] += [_without_aborted(partition) for partition in topic["partitions"]]
    return list(merged.values())


def normal(side: Side, api_key: int, value: Any, field: str = "") -> Any:
    rule = FIELDS.get(field) or FIELDS_OF_API.get((api_key, field))
    if rule is not None and value is not None:
        return rule(side, value)
    if isinstance(value, dict):
        made = {name: normal(side, api_key, inner, name) for name, inner in value.items()}
        return _without_sizes(made) if (api_key, made.get("name")) == (DESCRIBE_LOG_DIRS, OFFSETS_TOPIC) else made
    if isinstance(value, list):
        items = [normal(side, api_key, item) for item in value]
        return _merged(items) if (api_key, field) == (FETCH, "responses") else items
    return side.names.named(value)


def batches(side: Side, records: bytes) -> list[dict[str, Any]]:
    """Each whole batch with its header taken apart. Kafka may send a last one cut off, which every reader drops; a
    broker that stamps its own time also changes the checksum, and so do the producer ids that each makes up."""
    found = []
    for position, header in iterate_headers(records):
        row: dict[str, Any] = dict(zip(header._fields, header, strict=True))
        row["payload"] = records[position + HEADER_BYTES : position + header.size_bytes]
        row["producer_id"] = side.names.name("producer", header.producer_id)
        if header.is_log_append_time:
            row.update(crc="<stamped>", max_timestamp="<a moment>")
        if header.producer_id >= 0:
            row["crc"] = "<of a producer>"
        found.append(row)
    return found
