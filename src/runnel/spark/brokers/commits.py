"""Commits of a query's progress to a consumer group, which lag tools look at.

In: offsets. Out: nothing; the query's checkpoint is the truth, so a failure is only worth a line. A broker answers when
the commit is on its disk. The query does not wait for that: `start` sends, and the answer is read by `finish`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition
from runnel.spark.brokers.cluster import Cluster, Patience
from runnel.spark.brokers.connection import Connection
from runnel.spark.brokers.offsets import by_topic
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

GROUP_KEY = 0
STANDALONE_GENERATION = -1
COMMIT_PATIENCE_S = 5.0
"""A commit only informs: it must not hold up the query for long."""
RENEWAL_S = 3600.0
"""A group without members loses offsets that nobody commits for days, also those of a partition that is quiet."""
_AT_ONCE_S = 0.0
"""Questions on the way to a commit are not repeated by themselves: the whole of it is, within its patience."""
# Where a topic was deleted in the meantime there is nothing to commit.
_FINE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

log = logging.getLogger("runnel.spark")


class GroupCommits:
    """As of a consumer that manages its own partitions; refused while the group has members.

    Between `start` and `finish` nothing else may be asked of the cluster: the answer comes first on its connection.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._committed: dict[TopicPartition, int] = {}
        self._sent: dict[TopicPartition, int] = {}
        self._coordinator: Connection | None = None
        """Where the last commit succeeded."""
        self._failed = False
        self._renewed_s = time.monotonic()

    def start(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Send what has changed, and now and then all. Only the first, and the first after a failure, is waited for."""
        self.finish()
        if time.monotonic() - self._renewed_s >= RENEWAL_S:
            self._committed, self._renewed_s = {}, time.monotonic()
        changed = {target: offset for target, offset in offsets.items() if self._committed.get(target) != offset}
        if not changed:
            return
        if self._coordinator is None or not self._coordinator.is_open:
            self._insist(changed)
            return
        try:
            self._coordinator.ask(ApiKey.OFFSET_COMMIT, self._request(changed))
            self._sent = changed
        except ClientError:
            self._insist(changed)

    def finish(self) -> None:
        """Wait until what was sent is committed."""
        sent, self._sent = self._sent, {}
        if not sent or self._coordinator is None:
            return
        try:
            self._committed.update(self._arrived(sent, self._coordinator.answer()))
        except ClientError:
            self._insist(sent)

    def _insist(self, offsets: dict[TopicPartition, int]) -> None:
        """Commit and wait, for a while also for a coordinator."""
        # A cluster may have no coordinator for days (too few brokers for its offsets topic): one wait is enough.
        patience = Patience(0.0 if self._failed else COMMIT_PATIENCE_S)
        self._coordinator = None
        while True:
            try:
                coordinator = self._cluster.connect(_coordinator_id(self._cluster, self._group_id))
                reply = coordinator.call(ApiKey.OFFSET_COMMIT, self._request(offsets))
                self._committed.update(self._arrived(offsets, reply))
                break
            except ClientError as error:
                if error.retriable and patience.wait():
                    continue
                if not self._failed:
                    log.warning("progress is not shown to lag tools: %s", error.message)
                self._failed = True
                return
        self._coordinator, self._failed = coordinator, False

    def _request(self, offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
        rows = {
            target: {
                "partition_index": target.partition,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for target, offset in offsets.items()
        }
        unseen = {target.topic for target in offsets} - self._cluster.view.topics.keys()
        if unseen:
            self._cluster.refresh(sorted(unseen), patience_s=_AT_ONCE_S)
        topics = self._cluster.view.topics
        return {
            "group_id": self._group_id,
            "generation_id_or_member_epoch": STANDALONE_GENERATION,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {**topic, "topic_id": topics[topic["name"]].topic_id}
                for topic in by_topic(rows)
                if topics[topic["name"]].error_code == 0
            ],
        }

    def _arrived(self, sent: Mapping[TopicPartition, int], reply: Struct) -> dict[TopicPartition, int]:
        """What of it is committed; the rest is of topics that are unknown now, and may be there the next time."""
        names = {topic.topic_id: name for name, topic in self._cluster.view.topics.items()}
        arrived: dict[TopicPartition, int] = {}
        for topic in reply.topics:
            for row in topic.partitions:
                if row.error_code not in _FINE:
                    raise refused(row.error_code, f"commit to group '{self._group_id}'")
                target = TopicPartition(topic.name or names.get(topic.topic_id, ""), row.partition_index)
                if row.error_code == ErrorCode.NONE and target in sent:
                    arrived[target] = sent[target]
        return arrived


def _coordinator_id(cluster: Cluster, group_id: str) -> int:
    body = {"key": group_id, "key_type": GROUP_KEY, "coordinator_keys": [group_id]}
    reply = cluster.connect().call(ApiKey.FIND_COORDINATOR, body)
    found: Struct = reply.coordinators[0] if reply.coordinators else reply
    if found.error_code:
        raise refused(found.error_code, f"group '{group_id}'")
    if found.node_id not in cluster.view.brokers:
        cluster.refresh((), patience_s=_AT_ONCE_S)
    node_id: int = found.node_id
    return node_id
