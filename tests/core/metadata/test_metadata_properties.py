"""Random commands against the machine: what must hold whatever is asked, in whatever order.

Replaying the log from the start gives the state that the running machine has; `handle` changes nothing; an image that
was handed out never changes; the snapshot of an image rebuilds it; counters agree with what they count.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_cluster import Cluster, new_machine, register

from runnel.core.metadata import (
    AllocateProducerIds,
    AlterClientQuotas,
    AlterConfigs,
    AlterPartitionReassignments,
    AlterUserScramCredentials,
    ClusterImage,
    ClusterLimits,
    Command,
    ConfigChange,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    CredentialDeletion,
    CredentialUpsertion,
    DeleteTopics,
    ElectLeaders,
    FeatureUpdate,
    IncrementalAlterConfigs,
    MetadataRecord,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    QuotaAlteration,
    QuotaChange,
    SetFeatures,
    UpdateFeatures,
    decode_record,
    encode_record,
    snapshot,
)
from runnel.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    Endpoint,
    FeatureLevelRecord,
    FeatureRange,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityPart,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

LIMITS = ClusterLimits(partitions_per_request_max=12, partitions_per_broker_max=10)

names = st.sampled_from(["a", "b", "c.d", "c_d", "__consumer_offsets", "bad name", ""])
small = st.integers(-2, 6)
config_names = st.sampled_from(["retention.ms", "cleanup.policy", "segment.bytes", "log.retention.ms", "nope"])
config_values = st.sampled_from(["1000000", "5000000", "compact", "delete", "x", ""])
replica_lists = st.lists(st.integers(0, 3), max_size=3)
new_topics = st.builds(
    NewTopic,
    name=names,
    partitions=small,
    replication_factor=st.sampled_from([-1, 1, 2, 3]),
    assignments=st.one_of(st.just(()), st.lists(st.tuples(st.integers(0, 2), replica_lists), max_size=3)),
    configs=st.dictionaries(config_names, st.one_of(st.none(), config_values), max_size=1),
)
resources = st.builds(
    ConfigResource, st.sampled_from([2, 4, 8, 16, 32]), st.sampled_from(["a", "b", "1", "2", "", "9"])
)
changes = st.builds(ConfigChange, config_names, st.integers(0, 4), st.one_of(st.none(), config_values))
users = st.sampled_from(["alice", "bob", ""])
iterations = st.sampled_from([4096, 16_384, 5])
entities = st.lists(
    st.tuples(st.sampled_from(["user", "client-id", "ip", "x"]), st.sampled_from(["a", "1.2.3.4", "", None])),
    max_size=2,
)
quota_keys = st.sampled_from(["producer_byte_rate", "request_percentage", "connection_creation_rate", "nope"])
quota_values = st.one_of(st.none(), st.sampled_from([1.0, 2.0, 0.5, -1.0]))


def lists_of(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=3)


commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(CreateTopics, lists_of(new_topics), st.booleans()),
    st.builds(DeleteTopics, lists_of(st.one_of(names, st.uuids())), st.booleans()),
    st.builds(
        CreatePartitions,
        lists_of(st.builds(NewPartitions, names, small, st.one_of(st.none(), st.lists(replica_lists, max_size=2)))),
        st.booleans(),
    ),
    st.builds(IncrementalAlterConfigs, lists_of(st.tuples(resources, lists_of(changes))), st.booleans()),
    st.builds(
        AlterConfigs,
        lists_of(st.tuples(resources, lists_of(st.tuples(config_names, st.one_of(st.none(), config_values))))),
        st.booleans(),
    ),
    st.builds(
        AlterUserScramCredentials,
        lists_of(st.builds(CredentialDeletion, users, st.integers(0, 3))),
        lists_of(st.builds(CredentialUpsertion, users, st.integers(0, 3), iterations, st.just(b"s"), st.just(b"p"))),
    ),
    st.builds(
        AlterClientQuotas,
        lists_of(st.builds(QuotaAlteration, entities, lists_of(st.builds(QuotaChange, quota_keys, quota_values)))),
        st.booleans(),
    ),
    st.builds(ElectLeaders, st.integers(0, 2), st.one_of(st.none(), lists_of(st.tuples(names, st.integers(-1, 3))))),
    st.builds(
        AlterPartitionReassignments,
        lists_of(st.builds(PartitionReassignment, names, st.integers(-1, 3), st.one_of(st.none(), replica_lists))),
        st.booleans(),
    ),
    st.builds(
        UpdateFeatures,
        lists_of(st.builds(FeatureUpdate, st.sampled_from(["group.version", "f"]), small, st.integers(0, 4))),
        st.booleans(),
    ),
    st.builds(AllocateProducerIds, st.integers(0, 3), st.integers(1, 1000)),
    st.builds(SetFeatures, st.dictionaries(st.sampled_from(["f", "g"]), st.integers(0, 3), max_size=2)),
    st.builds(register, st.integers(1, 3), unclean=st.booleans()),
)


def frozen(image: ClusterImage) -> str:
    return repr(image)


def check_counts(image: ClusterImage) -> None:
    assert image.partition_count == sum(len(topic.partitions) for topic in image.topics.values())
    assert {topic.topic_id: name for name, topic in image.topics.items()} == image.topic_names
    for name, topic in image.topics.items():
        assert name == topic.name
        assert [partition.index for partition in topic.partitions] == list(range(len(topic.partitions)))
        for partition in topic.partitions:
            assert partition.leader in partition.isr
            assert set(partition.isr) <= set(partition.replicas) <= set(image.brokers)


@settings(max_examples=150, deadline=None)
@given(st.lists(commands, max_size=12))
def test_the_log_alone_tells_the_state(run: list[Command]) -> None:
    cluster = Cluster(brokers=2, limits=LIMITS)
    for command in run:
        before = cluster.machine.image
        shown = frozen(before)
        cluster.decide(command)
        assert cluster.machine.image is before, "handle must not change the state"
        cluster.do(command)
        assert frozen(before) == shown, "an image that was handed out must not change"
        check_counts(cluster.machine.image)

    replayed = new_machine()
    replayed.replay_all([decode_record(encode_record(record)) for record in cluster.log])
    assert replayed.image == cluster.machine.image
    assert replayed.image.version == cluster.machine.image.version == len(cluster.log)

    one_by_one = new_machine()
    for record in cluster.log:
        one_by_one.replay(record)
    assert one_by_one.image == replayed.image


@settings(max_examples=100, deadline=None)
@given(st.lists(commands, max_size=12))
def test_a_snapshot_rebuilds_the_state(run: list[Command]) -> None:
    cluster = Cluster(brokers=2, limits=LIMITS)
    for command in run:
        cluster.do(command)
    rebuilt = new_machine()
    rebuilt.replay_all(snapshot(cluster.machine.image))
    assert rebuilt.image == cluster.machine.image
    assert snapshot(rebuilt.image) == snapshot(cluster.machine.image)


@settings(max_examples=100, deadline=None)
@given(st.lists(commands, max_size=8), commands)
def test_a_refused_item_leaves_no_trace(run: list[Command], last: Command) -> None:
    cluster = Cluster(limits=LIMITS)
    for command in run:
        cluster.do(command)
    decision = cluster.decide(last)
    outcomes = decision.reply if isinstance(decision.reply, tuple) else ()
    if outcomes and all(outcome.code for outcome in outcomes):
        assert decision.records == []
    if getattr(last, "validate_only", False):
        assert decision.records == []


def test_ten_thousand_topics_are_made_and_replayed_as_one_batch() -> None:
    cluster = Cluster()
    outcomes = cluster.do(CreateTopics([NewTopic(f"topic-{number}") for number in range(10_000)]))
    assert {outcome.code for outcome in outcomes} == {0}
    replayed = new_machine()
    replayed.replay_all(snapshot(cluster.machine.image))
    assert replayed.image == cluster.machine.image


def test_a_snapshot_keeps_every_field() -> None:
    """States that no command reaches today: reassignments, recovery, racks, a broker on its way out."""
    topic_id, directory = UUID(int=5), UUID(int=6)
    machine = new_machine()
    features = (FeatureRange("metadata.version", 1, 30),)
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(
            1, UUID(int=1), 3, (Endpoint("P", "h", 9),), features, "rack", False, log_dirs=(directory,)
        ),
        BrokerRegistrationChangeRecord(1, 3, fenced=1, in_controlled_shutdown=1),
        TopicRecord("a", topic_id),
        PartitionRecord(0, topic_id, (1, 2), (1,), 1, 4, 5, (directory, directory), (2,), (3,), 1),
        PartitionChangeRecord(0, topic_id, isr=(1, 2), adding_replicas=(7,)),
        ConfigRecord(4, "1", "log.retention.ms", "5"),
        ConfigRecord(32, "group-a", "consumer.session.timeout.ms", "46000"),
        ConfigRecord(16, "subscription-a", "metrics", "*"),
        UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096),
        ClientQuotaRecord(
            (QuotaEntityPart("user", None), QuotaEntityPart("client-id", "c")), "request_percentage", 5.0
        ),
        FeatureLevelRecord("group.version", 1),
        ProducerIdsRecord(1, 3, 2000),
    ]
    machine.replay_all(records)
    partition = machine.image.topics["a"].partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch, partition.isr) == (4, 6, (1, 2))
    assert (partition.removing_replicas, partition.adding_replicas, partition.leader_recovery_state) == ((2,), (7,), 1)
    assert machine.image.brokers[1].in_controlled_shutdown
    assert machine.image.client_quotas == {(("client-id", "c"), ("user", None)): {"request_percentage": 5.0}}
    assert machine.image.group_configs == {"group-a": {"consumer.session.timeout.ms": "46000"}}
    rebuilt = new_machine()
    rebuilt.replay_all(snapshot(machine.image))
    assert rebuilt.image == machine.image
