// Scenarios of the area "Cluster".

import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.ResourceNotFoundException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

final class Cluster {
    private Cluster() {
    }

    static void add(Map<String, Compat.Scenario> all) {
        all.put("cluster-describe", Cluster::describe);
        all.put("log-dirs", Cluster::logDirs);
        all.put("producers", Cluster::producers);
        all.put("elect-leaders", Cluster::electLeaders);
        all.put("reassignments", Cluster::reassignments);
        all.put("quorum", Cluster::quorum);
        all.put("features", Cluster::features);
        all.put("scram", Cluster::scram);
        all.put("quotas", Cluster::quotas);
        all.put("throttle", Cluster::throttle);
    }

    private static void describe(Run run) throws Exception {
        DescribeClusterResult result =
            run.admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        Collection<Node> nodes = result.nodes().get();
        Run.equal(1, nodes.size());
        Node node = nodes.iterator().next();
        Run.equal(run.bootstrap, node.host() + ":" + node.port());
        Run.equal(node.id(), result.controller().get().id());
        Run.equal(22, result.clusterId().get().length());
        Run.require(!result.authorizedOperations().get().isEmpty(), "no authorized operations");
    }

    private static void logDirs(Run run) throws Exception {
        String topic = run.topic(1);
        run.send(List.of(Run.record(topic, null, "x".repeat(1000))));
        Map<String, LogDirDescription> found =
            run.admin.describeLogDirs(List.of(run.broker())).allDescriptions().get().get(run.broker());
        Run.equal(1, found.size());
        LogDirDescription directory = found.values().iterator().next();
        Run.require(directory.error() == null, "error " + directory.error());
        long size = directory.replicaInfos().get(new TopicPartition(topic, 0)).size();
        Run.require(size > 1000 && size < 2000, size + " bytes for a record of 1000");
        Run.require(directory.totalBytes().getAsLong() > 0, "no total");
    }

    private static void producers(Run run) throws Exception {
        String topic = run.topic(1);
        try (KafkaProducer<byte[], byte[]> producer = run.producer()) {
            run.send(producer, Run.numbered(topic, 3));
        }
        TopicPartition place = new TopicPartition(topic, 0);
        List<ProducerState> active =
            run.admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers();
        Run.equal(1, active.size());
        Run.require(active.get(0).producerId() >= 0, "no producer id");
        Run.equal(0, active.get(0).producerEpoch());
        Run.equal(2, active.get(0).lastSequence());
    }

    private static void electLeaders(Run run) throws Exception {
        String topic = run.topic(1);
        TopicPartition place = new TopicPartition(topic, 0);
        Optional<Throwable> answer =
            run.admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).partitions().get().get(place);
        Run.require(answer.get() instanceof ElectionNotNeededException, "answered " + answer.get());
        Run.equal(run.broker(), run.describe(topic).partitions().get(0).leader().id());
    }

    private static void reassignments(Run run) throws Exception {
        String topic = run.topic(1);
        TopicPartition place = new TopicPartition(topic, 0);
        Optional<NewPartitionReassignment> same = Optional.of(new NewPartitionReassignment(List.of(run.broker())));
        run.admin.alterPartitionReassignments(Map.of(place, same)).all().get();
        Run.eventually("none under way", () ->
            run.admin.listPartitionReassignments().reassignments().get().isEmpty());
        Run.refused(NoReassignmentInProgressException.class, () ->
            run.admin.alterPartitionReassignments(Map.of(place, Optional.empty())).all().get());
    }

    private static void quorum(Run run) throws Exception {
        QuorumInfo info = run.admin.describeMetadataQuorum().quorumInfo().get();
        boolean voter = info.voters().stream().anyMatch(one -> one.replicaId() == info.leaderId());
        Run.require(voter, "the leader " + info.leaderId() + " is no voter");
        Run.require(info.highWatermark() > 0, "high watermark " + info.highWatermark());
    }

    private static Map<String, FinalizedVersionRange> finalized(Run run) throws Exception {
        return run.admin.describeFeatures().featureMetadata().get().finalizedFeatures();
    }

    private static void features(Run run) throws Exception {
        Map<String, FinalizedVersionRange> before = finalized(run);
        Run.require(before.get("metadata.version").maxVersionLevel() > 0, "no metadata.version");
        Run.equal((short) 1, before.get("group.version").maxVersionLevel());
        FeatureUpdate same = new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE);
        run.admin.updateFeatures(Map.of("group.version", same), new UpdateFeaturesOptions().validateOnly(true)).all().get();
        Run.equal(before, finalized(run));
    }

    private static void scram(Run run) throws Exception {
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192);
        run.admin.alterUserScramCredentials(
            List.of(new UserScramCredentialUpsertion(run.name(), info, "a secret"))).all().get();
        Run.equal(List.of(info),
            run.admin.describeUserScramCredentials(List.of(run.name())).description(run.name()).get().credentialInfos());
        run.admin.alterUserScramCredentials(
            List.of(new UserScramCredentialDeletion(run.name(), ScramMechanism.SCRAM_SHA_256))).all().get();
        Run.refused(ResourceNotFoundException.class, () ->
            run.admin.describeUserScramCredentials(List.of(run.name())).description(run.name()).get());
    }

    private static void quotas(Run run) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of("client-id", run.name()));
        ClientQuotaFilter filter =
            ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity("client-id", run.name())));
        setQuota(run, entity, 12_345.0);
        Run.eventually("the quota", () -> Map.of(entity, Map.of("consumer_byte_rate", 12_345.0))
            .equals(run.admin.describeClientQuotas(filter).entities().get()));
        setQuota(run, entity, null);
        Run.eventually("no quota", () -> run.admin.describeClientQuotas(filter).entities().get().isEmpty());
    }

    private static void setQuota(Run run, ClientQuotaEntity entity, Double value) throws Exception {
        List<ClientQuotaAlteration.Op> change =
            Collections.singletonList(new ClientQuotaAlteration.Op("consumer_byte_rate", value));
        run.admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, change))).all().get();
    }

    /** The runner gave a quota to the client id that is named as the topic. */
    private static void throttle(Run run) throws Exception {
        String topic = run.topic(1);
        ProducerRecord<byte[], byte[]> one = new ProducerRecord<>(topic, 0, null, new byte[10_000]);
        try (KafkaProducer<byte[], byte[]> producer =
                run.producer("client.id", topic, "batch.size", "200000", "linger.ms", "20")) {
            run.send(producer, Collections.nCopies(60, one));
            double told = 0;
            for (Metric metric : producer.metrics().values()) {
                if (metric.metricName().name().equals("produce-throttle-time-max")) {
                    told = Math.max(told, (Double) metric.metricValue());
                }
            }
            Run.require(told > 0, "never told to wait");
        }
        Run.equal(60, run.read(topic, 0, 0, 60).size());
    }
}
