// Scenarios of the area "Topics and configs".

import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

final class Topics {
    private Topics() {
    }

    static void add(Map<String, Compat.Scenario> all) {
        all.put("topic-create", Topics::create);
        all.put("topic-describe", Topics::describe);
        all.put("topic-delete", Topics::delete);
        all.put("partitions-create", Topics::createPartitions);
        all.put("configs-describe", Topics::describeConfigs);
        all.put("configs-alter", Topics::alterConfigs);
        all.put("records-delete", Topics::deleteRecords);
        all.put("offsets-list", Topics::listOffsets);
    }

    private static void make(Run run, NewTopic wanted) throws Exception {
        run.admin.createTopics(List.of(wanted)).all().get();
    }

    private static void create(Run run) throws Exception {
        NewTopic wanted = new NewTopic(run.name(), 3, (short) 1).configs(Map.of("retention.ms", "777000"));
        CreateTopicsResult result = run.admin.createTopics(List.of(wanted));
        Run.equal(3, result.numPartitions(run.name()).get());
        Run.equal(1, result.replicationFactor(run.name()).get());
        Run.equal("777000", result.config(run.name()).get().get("retention.ms").value());
        Uuid topicId = result.topicId(run.name()).get();
        Run.eventually("the topic", () -> run.describe(run.name()).topicId().equals(topicId));
        Map<Integer, List<Integer>> where = Map.of(0, List.of(run.broker()), 1, List.of(run.broker()));
        make(run, new NewTopic(run.name("placed"), where));
        Run.eventually("two partitions", () -> run.describe(run.name("placed")).partitions().size() == 2);
        CreateTopicsOptions validate = new CreateTopicsOptions().validateOnly(true);
        run.admin.createTopics(List.of(new NewTopic(run.name("wish"), 3, (short) 1)), validate).all().get();
        Run.require(!run.admin.listTopics().names().get().contains(run.name("wish")), "created though only validated");
        refusals(run);
    }

    private static void refusals(Run run) throws Exception {
        String bad = run.name("bad");
        Run.refused(TopicExistsException.class, () -> make(run, new NewTopic(run.name(), 1, (short) 1)));
        Run.refused(InvalidTopicException.class, () -> make(run, new NewTopic("bad name", 1, (short) 1)));
        Run.refused(InvalidPartitionsException.class, () -> make(run, new NewTopic(bad, 0, (short) 1)));
        Run.refused(InvalidReplicationFactorException.class, () -> make(run, new NewTopic(bad, 1, (short) 3)));
        Map<String, String> soon = Map.of("retention.ms", "soon");
        Run.refused(InvalidConfigurationException.class, () -> make(run, new NewTopic(bad, 1, (short) 1).configs(soon)));
    }

    private static void describe(Run run) throws Exception {
        String topic = run.topic(5);
        Run.require(run.admin.listTopics().names().get().contains(topic), "not listed");
        TopicDescription byName = run.describe(topic);
        Uuid topicId = byName.topicId();
        TopicCollection.TopicIdCollection ids = TopicCollection.ofTopicIds(List.of(topicId));
        Run.equal(topic, run.admin.describeTopics(ids).allTopicIds().get().get(topicId).name());
        DescribeTopicsOptions pages = new DescribeTopicsOptions()
            .includeAuthorizedOperations(true).partitionSizeLimitPerResponse(2);
        TopicDescription inPages = run.admin.describeTopics(List.of(topic), pages).allTopicNames().get().get(topic);
        Run.require(!inPages.authorizedOperations().isEmpty(), "no authorized operations");
        Run.equal(5, inPages.partitions().size());
        for (TopicPartitionInfo partition : inPages.partitions()) {
            Run.equal(run.broker(), partition.leader().id());
            Run.equal(run.broker(), partition.isr().get(0).id());
        }
        Run.refused(UnknownTopicOrPartitionException.class, () -> run.describe(run.name("nothing")));
    }

    private static void delete(Run run) throws Exception {
        String first = run.topic(1);
        String second = run.topicNamed(run.name("second"), 1);
        run.admin.deleteTopics(List.of(first)).all().get();
        Uuid topicId = run.describe(second).topicId();
        run.admin.deleteTopics(TopicCollection.ofTopicIds(List.of(topicId))).all().get();
        Run.eventually("no topics", () ->
            Collections.disjoint(run.admin.listTopics().names().get(), Set.of(first, second)));
        Run.refused(UnknownTopicOrPartitionException.class, () -> run.admin.deleteTopics(List.of(first)).all().get());
        Run.refused(UnknownTopicIdException.class, () ->
            run.admin.deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).all().get());
    }

    private static void createPartitions(Run run) throws Exception {
        String topic = run.topic(2);
        Map<String, NewPartitions> more = Map.of(topic, NewPartitions.increaseTo(5));
        run.admin.createPartitions(more, new CreatePartitionsOptions().validateOnly(true)).all().get();
        Run.equal(2, run.describe(topic).partitions().size());
        run.admin.createPartitions(more).all().get();
        Run.eventually("five partitions", () -> run.describe(topic).partitions().size() == 5);
        Run.refused(InvalidPartitionsException.class, () ->
            run.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get());
        run.send(List.of(new ProducerRecord<>(topic, 4, null, Run.bytes("new"))));
        Run.equal("new", Run.text(run.read(topic, 4, 0, 1).get(0).value()));
    }

    static Config configs(Run run, ConfigResource.Type type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(type, name);
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return run.admin.describeConfigs(List.of(resource), options).all().get().get(resource);
    }

    private static void describeConfigs(Run run) throws Exception {
        String topic = run.topic(1, "retention.bytes", "1000");
        Config config = configs(run, ConfigResource.Type.TOPIC, topic);
        ConfigEntry entry = config.get("retention.bytes");
        Run.equal("1000", entry.value());
        Run.equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, entry.source());
        Run.equal(ConfigEntry.ConfigType.LONG, entry.type());
        Run.equal(2, entry.synonyms().size());
        Run.equal("log.retention.bytes", entry.synonyms().get(1).name());
        Run.require(entry.documentation() != null && !entry.documentation().isEmpty(), "no documentation");
        Run.require(!entry.isSensitive() && !entry.isReadOnly() && !entry.isDefault(), "wrong flags");
        Run.require(config.get("segment.bytes").isDefault(), "segment.bytes is not a default");
        Run.refused(UnknownTopicOrPartitionException.class, () ->
            configs(run, ConfigResource.Type.TOPIC, run.name("nothing")));
        Config broker = configs(run, ConfigResource.Type.BROKER, String.valueOf(run.broker()));
        Run.equal("1", broker.get("num.partitions").value());
        Run.require(broker.get("node.id").isReadOnly(), "node.id can be changed");
        for (ConfigEntry one : broker.entries()) {
            Run.require(!one.isSensitive() || one.value() == null, one.name() + " is shown");
        }
    }

    static void alter(Run run, ConfigResource.Type type, String name, AlterConfigOp... changes) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> all = Map.of(new ConfigResource(type, name), List.of(changes));
        run.admin.incrementalAlterConfigs(all).all().get();
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    private static void alterConfigs(Run run) throws Exception {
        String topic = run.topic(1, "retention.bytes", "1000");
        alter(run, ConfigResource.Type.TOPIC, topic, set("retention.ms", "777000"),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND),
            new AlterConfigOp(new ConfigEntry("retention.bytes", null), AlterConfigOp.OpType.DELETE));
        Run.eventually("the change", () ->
            "777000".equals(configs(run, ConfigResource.Type.TOPIC, topic).get("retention.ms").value()));
        Config config = configs(run, ConfigResource.Type.TOPIC, topic);
        Run.equal("-1", config.get("retention.bytes").value());
        Run.equal("delete,compact", config.get("cleanup.policy").value());
        Run.refused(InvalidConfigurationException.class, () ->
            alter(run, ConfigResource.Type.TOPIC, topic, set("retention.ms", "soon")));
    }

    private static void deleteRecords(Run run) throws Exception {
        String topic = run.topic(1);
        run.send(Run.numbered(topic, 10));
        TopicPartition place = new TopicPartition(topic, 0);
        Map<TopicPartition, RecordsToDelete> wanted = Map.of(place, RecordsToDelete.beforeOffset(4));
        Run.equal(4L, run.admin.deleteRecords(wanted).lowWatermarks().get(place).get().lowWatermark());
        Run.equal(4L, run.offset(topic, OffsetSpec.earliest()));
        List<ConsumerRecord<byte[], byte[]>> found = run.read(topic, 0, 4, 6);
        Run.equal("key 4", Run.text(found.get(0).key()));
    }

    private static void listOffsets(Run run) throws Exception {
        String topic = run.topic(1, "retention.ms", "-1");
        for (long later : new long[] {0, 500, 200}) {
            run.send(List.of(new ProducerRecord<>(topic, 0, Run.BASE_MS + later, null, Run.bytes("x"))));
        }
        Run.equal(0L, run.offset(topic, OffsetSpec.earliest()));
        Run.equal(3L, run.offset(topic, OffsetSpec.latest()));
        Run.equal(1L, run.offset(topic, OffsetSpec.maxTimestamp()));
        Run.equal(1L, run.offset(topic, OffsetSpec.forTimestamp(Run.BASE_MS + 100)));
        Run.equal(0L, run.offset(topic, OffsetSpec.earliestLocal()));
    }
}
