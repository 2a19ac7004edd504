"""Brokers: registration and epochs, producer id blocks, features."""

from __future__ import annotations

import pytest
from metadata_cluster import Cluster, register

from runnel.core.metadata import AllocateProducerIds, CreateTopics, NewTopic, SetFeatures
from runnel.core.metadata.draft import MetadataInconsistent
from runnel.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from runnel.wire.errors import ErrorCode
from runnel.wire.types import ZERO_UUID


def epochs(cluster: Cluster) -> list[tuple[int, int]]:
    topics = cluster.machine.image.topics.values()
    return [(part.leader_epoch, part.partition_epoch) for topic in topics for part in topic.partitions]


def test_each_start_has_a_higher_broker_epoch() -> None:
    cluster = Cluster()
    first = cluster.machine.image.brokers[1].epoch
    outcome = cluster.do(register())
    assert outcome.broker_epoch > first
    assert cluster.machine.image.brokers[1].epoch == outcome.broker_epoch
    assert cluster.do(register(2)).broker_epoch > outcome.broker_epoch


def test_leader_epochs_stay_after_a_stop_in_order() -> None:
    cluster = Cluster()
    cluster.do(CreateTopics([NewTopic("a", 2)]))
    cluster.do(register())
    assert epochs(cluster) == [(0, 0), (0, 0)]


def test_leader_epochs_grow_after_a_crash_so_that_consumers_notice_lost_records() -> None:
    cluster = Cluster()
    cluster.do(CreateTopics([NewTopic("a", 2), NewTopic("b")]))
    cluster.do(register(unclean=True))
    assert epochs(cluster) == [(1, 1), (1, 1), (1, 1)]
    assert {part.leader for part in cluster.machine.image.topics["a"].partitions} == {1}


def test_a_crash_of_one_broker_leaves_the_partitions_of_others() -> None:
    cluster = Cluster(brokers=2)
    cluster.do(CreateTopics([NewTopic("a", assignments=[(0, [1]), (1, [2])])]))
    cluster.do(register(2, unclean=True))
    assert epochs(cluster) == [(0, 0), (1, 1)]


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    cluster = Cluster()
    first = cluster.do(AllocateProducerIds(1))
    second = cluster.do(AllocateProducerIds(1, count=10))
    third = cluster.do(AllocateProducerIds(1))
    assert (first.first_producer_id, first.count) == (0, 1000)
    assert (second.first_producer_id, second.count) == (1000, 10)
    assert third.first_producer_id == 1010


def test_an_unknown_broker_gets_no_producer_ids() -> None:
    decision = Cluster().decide(AllocateProducerIds(9))
    assert decision.records == []
    assert decision.reply.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_features_are_finalized_and_removed() -> None:
    cluster = Cluster()
    cluster.do(SetFeatures({"metadata.version": 30, "group.version": 1}))
    assert cluster.machine.image.features == {"metadata.version": 30, "group.version": 1}
    assert cluster.decide(SetFeatures({"group.version": 1})).records == []
    cluster.do(SetFeatures({"group.version": 0}))
    assert cluster.machine.image.features == {"metadata.version": 30}


def test_a_broker_is_fenced_and_comes_back() -> None:
    cluster = Cluster()
    epoch = cluster.machine.image.brokers[1].epoch
    cluster.machine.replay(BrokerRegistrationChangeRecord(1, epoch, fenced=1))
    assert cluster.machine.image.usable_brokers() == []
    assert cluster.do(CreateTopics([NewTopic("a")]))[0].code is ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.machine.replay(BrokerRegistrationChangeRecord(1, epoch, fenced=-1))
    assert cluster.machine.image.usable_brokers() == [1]
    cluster.machine.replay(UnregisterBrokerRecord(1, epoch))
    assert cluster.machine.image.brokers == {}


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(ZERO_UUID),
        PartitionRecord(0, ZERO_UUID, (1,), (1,), 1, 0, 0),
        PartitionChangeRecord(0, ZERO_UUID, leader=1),
        UnregisterBrokerRecord(9, 0),
        BrokerRegistrationChangeRecord(9, 0, fenced=1),
        TopicRecord("a", ZERO_UUID),
    ],
)
def test_a_log_that_contradicts_itself_is_not_replayed(record: MetadataRecord) -> None:
    cluster = Cluster()
    cluster.do(CreateTopics([NewTopic("a")]))
    before = cluster.machine.image
    with pytest.raises(MetadataInconsistent):
        cluster.machine.replay(record)
    assert cluster.machine.image is before
