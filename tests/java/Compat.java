// The Java clients of Apache Kafka against one broker: every check in one JVM, one line of output for each.
//
// Usage: java Compat HOST:PORT. Prints "ok NAME" or "FAIL NAME: reason"; the tests in test_java_clients.py read these.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Compat {
    private static final long DEADLINE_MS = 60_000;
    private static final long BASE_MS = 1_700_000_000_000L;

    private final String bootstrap;
    private final Admin admin;
    private final String mark = UUID.randomUUID().toString().substring(0, 6);
    private int topics = 0;

    private Compat(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", "60000"));
    }

    interface Check {
        void run() throws Exception;
    }

    public static void main(String[] arguments) {
        Compat compat = new Compat(arguments[0]);
        boolean good = true;
        for (Map.Entry<String, Check> check : compat.checks().entrySet()) {
            good &= compat.report(check.getKey(), check.getValue());
        }
        compat.admin.close(Duration.ZERO);
        System.exit(good ? 0 : 1);
    }

    private boolean report(String name, Check check) {
        try {
            check.run();
            System.out.println("ok " + name);
            return true;
        } catch (Throwable error) {
            StackTraceElement place = null;
            for (StackTraceElement element : error.getStackTrace()) {
                if (element.getClassName().startsWith("Compat")) {
                    place = element;
                    break;
                }
            }
            System.out.println("FAIL " + name + ": " + String.valueOf(error).replace('\n', ' ') + " at " + place);
            return false;
        }
    }

    private Map<String, Check> checks() {
        Map<String, Check> checks = new LinkedHashMap<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            checks.put("compression " + codec, () -> compression(codec));
        }
        checks.put("idempotent default producer", this::idempotentDefault);
        checks.put("acks 0, 1 and all", this::acks);
        checks.put("headers", this::headers);
        checks.put("nulls and empty values", this::nulls);
        checks.put("one megabyte records", this::megabyte);
        checks.put("records over the limit are refused", this::tooLarge);
        checks.put("one hundred partitions", this::hundredPartitions);
        checks.put("create time", this::createTime);
        checks.put("log append time", this::logAppendTime);
        checks.put("offsets by timestamp", this::offsetsByTime);
        checks.put("seek and watermarks", this::seek);
        checks.put("out of range", this::outOfRange);
        checks.put("long poll wakes on produce", this::longPoll);
        checks.put("auto create", this::autoCreate);
        checks.put("consumer of many partitions", this::manyPartitions);
        checks.put("admin: create topics", this::createTopics);
        checks.put("admin: create topics, validate only", this::validateOnly);
        checks.put("admin: create topics, assignments", this::assignments);
        checks.put("admin: create topics, refusals", this::createRefusals);
        checks.put("admin: delete topics by name and id", this::deleteTopics);
        checks.put("admin: describe topics by name and id", this::describeTopics);
        checks.put("admin: create partitions", this::createPartitions);
        checks.put("admin: delete records", this::deleteRecords);
        checks.put("admin: describe configs", this::describeConfigs);
        checks.put("admin: describe broker configs", this::describeBrokerConfigs);
        checks.put("admin: incremental alter configs", this::alterConfigs);
        checks.put("admin: describe cluster", this::describeCluster);
        checks.put("admin: list offsets", this::listOffsets);
        checks.put("admin: describe log dirs", this::describeLogDirs);
        checks.put("admin: describe features", () -> admin.describeFeatures().featureMetadata().get());
        return checks;
    }

    // ---- clients

    private KafkaProducer<byte[], byte[]> producer(String... settings) {
        Properties properties = new Properties();
        properties.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        properties.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        properties.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        properties.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, "60000");
        for (int i = 0; i < settings.length; i += 2) {
            properties.put(settings[i], settings[i + 1]);
        }
        return new KafkaProducer<>(properties);
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties properties = new Properties();
        properties.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        properties.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
        properties.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class.getName());
        properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        properties.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, "8388608");
        return new KafkaConsumer<>(properties);
    }

    private List<RecordMetadata> send(KafkaProducer<byte[], byte[]> producer, List<ProducerRecord<byte[], byte[]>> records)
            throws Exception {
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        for (ProducerRecord<byte[], byte[]> record : records) {
            futures.add(producer.send(record));
        }
        producer.flush();
        List<RecordMetadata> answers = new ArrayList<>();
        for (Future<RecordMetadata> future : futures) {
            answers.add(future.get());
        }
        return answers;
    }

    private List<ConsumerRecord<byte[], byte[]>> read(String topic, int partition, long offset, int count) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            TopicPartition place = new TopicPartition(topic, partition);
            consumer.assign(List.of(place));
            consumer.seek(place, offset);
            return poll(consumer, count);
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (found.size() < count && System.currentTimeMillis() < deadline) {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
        }
        require(found.size() == count, found.size() + " of " + count + " records came");
        return found;
    }

    private String topic(int partitions, String... configs) throws Exception {
        String name = "java" + (++topics) + "-" + mark;
        Map<String, String> settings = new HashMap<>();
        for (int i = 0; i < configs.length; i += 2) {
            settings.put(configs[i], configs[i + 1]);
        }
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(settings))).all().get();
        eventually("topic " + name, () -> describe(name).partitions().size() == partitions);
        // Apache Kafka may answer before the partitions have their leader.
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        for (int index = 0; index < partitions; index++) {
            latest.put(new TopicPartition(name, index), OffsetSpec.latest());
        }
        admin.listOffsets(latest).all().get();
        return name;
    }

    private TopicDescription describe(String name) throws Exception {
        return admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    private void eventually(String what, Condition condition) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (System.currentTimeMillis() < deadline) {
            try {
                if (condition.holds()) {
                    return;
                }
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) {
                    throw error;
                }
            }
            Thread.sleep(10);
        }
        throw new AssertionError("never: " + what);
    }

    private static void require(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    private static void equal(Object expected, Object found) {
        require(expected == null ? found == null : expected.equals(found), "expected " + expected + ", found " + found);
    }

    private static void refused(Class<? extends Throwable> kind, Check check) throws Exception {
        try {
            check.run();
        } catch (ExecutionException error) {
            require(kind.isInstance(error.getCause()), "expected " + kind.getSimpleName() + ", got " + error.getCause());
            require(error.getCause().getMessage() != null, "the error has no message");
            return;
        }
        throw new AssertionError("not refused with " + kind.getSimpleName());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, String key, String value) {
        return new ProducerRecord<>(topic, 0, key == null ? null : bytes(key), value == null ? null : bytes(value));
    }

    private static List<ProducerRecord<byte[], byte[]>> numbered(String topic, int count) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(record(topic, "key " + i, ("value " + i + " ").repeat(20)));
        }
        return records;
    }

    // ---- producing and consuming

    private void compression(String codec) throws Exception {
        String name = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer("compression.type", codec, "linger.ms", "20")) {
            send(producer, numbered(name, 500));
        }
        List<ConsumerRecord<byte[], byte[]>> found = read(name, 0, 0, 500);
        for (int i = 0; i < 500; i++) {
            equal((long) i, found.get(i).offset());
            equal("key " + i, text(found.get(i).key()));
            equal(("value " + i + " ").repeat(20), text(found.get(i).value()));
        }
    }

    private void idempotentDefault() throws Exception {
        String name = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer("batch.size", "200", "linger.ms", "0")) {
            List<RecordMetadata> answers = send(producer, numbered(name, 1000));
            for (int i = 0; i < 1000; i++) {
                equal((long) i, answers.get(i).offset());
            }
        }
        equal(1000, read(name, 0, 0, 1000).size());
    }

    private void acks() throws Exception {
        for (String acks : List.of("0", "1", "all")) {
            String name = topic(1);
            try (KafkaProducer<byte[], byte[]> producer = producer("acks", acks, "enable.idempotence", "false")) {
                send(producer, numbered(name, 10));
            }
            equal(10, read(name, 0, 0, 10).size());
        }
    }

    private void headers() throws Exception {
        String name = topic(1);
        List<Header> headers = List.of(
            new RecordHeader("trace", bytes("abc")),
            new RecordHeader("repeated", bytes("1")),
            new RecordHeader("repeated", bytes("2")),
            new RecordHeader("empty", new byte[0]),
            new RecordHeader("nothing", (byte[]) null));
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            send(producer, List.of(new ProducerRecord<>(name, 0, bytes("k"), bytes("v"), headers)));
        }
        List<Header> found = Arrays.asList(read(name, 0, 0, 1).get(0).headers().toArray());
        equal(headers, found);
    }

    private void nulls() throws Exception {
        String name = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            send(producer, List.of(record(name, null, "v"), record(name, "k", null), record(name, "", "")));
        }
        List<ConsumerRecord<byte[], byte[]>> found = read(name, 0, 0, 3);
        equal(null, found.get(0).key());
        equal(null, found.get(1).value());
        equal("", text(found.get(2).key()));
        equal("", text(found.get(2).value()));
    }

    private void megabyte() throws Exception {
        String name = topic(1, "max.message.bytes", "3000000");
        byte[] value = new byte[1_048_576];
        Arrays.fill(value, (byte) 'x');
        try (KafkaProducer<byte[], byte[]> producer = producer("max.request.size", "3000000")) {
            send(producer, Collections.nCopies(3, new ProducerRecord<>(name, 0, null, value)));
        }
        for (ConsumerRecord<byte[], byte[]> one : read(name, 0, 0, 3)) {
            require(Arrays.equals(value, one.value()), "the value changed");
        }
    }

    private void tooLarge() throws Exception {
        String name = topic(1, "max.message.bytes", "1000");
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            refused(RecordTooLargeException.class, () -> send(producer, List.of(record(name, "k", "x".repeat(5000)))));
            equal(0L, send(producer, List.of(record(name, "k", "small"))).get(0).offset());
        }
    }

    private void hundredPartitions() throws Exception {
        String name = topic(100);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            equal(100, producer.partitionsFor(name).size());
            List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                records.add(new ProducerRecord<>(name, i, null, bytes("for " + i)));
            }
            send(producer, records);
        }
        equal("for 99", text(read(name, 99, 0, 1).get(0).value()));
    }

    private void manyPartitions() throws Exception {
        String name = topic(20);
        Set<TopicPartition> places = new HashSet<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(); KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            for (int i = 0; i < 20; i++) {
                places.add(new TopicPartition(name, i));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            // Several rounds, so that the fetch session goes on incrementally.
            for (int round = 0; round < 5; round++) {
                List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
                for (int i = round; i < 20; i += 3) {
                    records.add(new ProducerRecord<>(name, i, null, bytes("round " + round)));
                }
                send(producer, records);
                Set<Integer> seen = new HashSet<>();
                for (ConsumerRecord<byte[], byte[]> one : poll(consumer, records.size())) {
                    equal("round " + round, text(one.value()));
                    seen.add(one.partition());
                }
                equal(records.size(), seen.size());
            }
        }
    }

    private void createTime() throws Exception {
        String name = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            send(producer, List.of(new ProducerRecord<>(name, 0, BASE_MS, null, bytes("v"))));
        }
        ConsumerRecord<byte[], byte[]> found = read(name, 0, 0, 1).get(0);
        equal(BASE_MS, found.timestamp());
        equal(TimestampType.CREATE_TIME, found.timestampType());
    }

    private void logAppendTime() throws Exception {
        String name = topic(1, "message.timestamp.type", "LogAppendTime");
        long before = System.currentTimeMillis();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            RecordMetadata answer = send(producer, List.of(new ProducerRecord<>(name, 0, BASE_MS, null, bytes("v")))).get(0);
            require(answer.timestamp() >= before, "the producer was told " + answer.timestamp());
        }
        ConsumerRecord<byte[], byte[]> found = read(name, 0, 0, 1).get(0);
        require(found.timestamp() >= before, "the consumer was told " + found.timestamp());
        equal(TimestampType.LOG_APPEND_TIME, found.timestampType());
    }

    private void produceAt(String name, long... laterMs) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (long later : laterMs) {
                send(producer, List.of(new ProducerRecord<>(name, 0, BASE_MS + later, null, bytes("at " + later))));
            }
        }
    }

    private void offsetsByTime() throws Exception {
        String name = topic(1);
        produceAt(name, 0, 10, 1000);
        TopicPartition place = new TopicPartition(name, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(place, BASE_MS + 11)).get(place);
            equal(2L, found.offset());
            equal(BASE_MS + 1000, found.timestamp());
            equal(null, consumer.offsetsForTimes(Map.of(place, BASE_MS + 5000)).get(place));
        }
    }

    private void seek() throws Exception {
        String name = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer("linger.ms", "50")) {
            send(producer, numbered(name, 100));
        }
        TopicPartition place = new TopicPartition(name, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            equal(0L, consumer.beginningOffsets(List.of(place)).get(place));
            equal(100L, consumer.endOffsets(List.of(place)).get(place));
            consumer.assign(List.of(place));
            for (long start : List.of(57L, 3L, 99L)) {
                consumer.seek(place, start);
                List<ConsumerRecord<byte[], byte[]>> found = poll(consumer, (int) (100 - start));
                equal(start, found.get(0).offset());
                equal("key " + start, text(found.get(0).key()));
            }
            consumer.seekToEnd(List.of(place));
            equal(100L, consumer.position(place));
        }
    }

    private void outOfRange() throws Exception {
        String name = topic(1);
        TopicPartition place = new TopicPartition(name, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(place));
            consumer.seek(place, 1000);
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (System.currentTimeMillis() < deadline) {
                try {
                    consumer.poll(Duration.ofMillis(100));
                } catch (OffsetOutOfRangeException expected) {
                    return;
                }
            }
        }
        throw new AssertionError("no OffsetOutOfRangeException");
    }

    private void longPoll() throws Exception {
        String name = topic(1);
        TopicPartition place = new TopicPartition(name, 0);
        Properties slow = new Properties();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(); KafkaProducer<byte[], byte[]> producer = producer()) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            consumer.poll(Duration.ofMillis(50));
            send(producer, List.of(record(name, "k", "news")));
            equal("news", text(poll(consumer, 1).get(0).value()));
        }
    }

    private void autoCreate() throws Exception {
        String name = "java-auto-" + mark;
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            equal(0L, send(producer, List.of(new ProducerRecord<>(name, bytes("first")))).get(0).offset());
        }
        equal("first", text(read(name, 0, 0, 1).get(0).value()));
    }

    // ---- admin

    private void createTopics() throws Exception {
        String name = "java-create-" + mark;
        NewTopic wanted = new NewTopic(name, 3, (short) 1).configs(Map.of("retention.ms", "777"));
        CreateTopicsResult result = admin.createTopics(List.of(wanted));
        equal(3, result.numPartitions(name).get());
        equal(1, result.replicationFactor(name).get());
        equal("777", result.config(name).get().get("retention.ms").value());
        Uuid topicId = result.topicId(name).get();
        eventually("the topic", () -> describe(name).topicId().equals(topicId));
        require(admin.listTopics().names().get().contains(name), "not in the list");
    }

    private void validateOnly() throws Exception {
        String name = "java-validate-" + mark;
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(true);
        admin.createTopics(List.of(new NewTopic(name, 3, (short) 1)), options).all().get();
        require(!admin.listTopics().names().get().contains(name), "created");
    }

    private void assignments() throws Exception {
        String name = "java-assign-" + mark;
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        Map<Integer, List<Integer>> where = Map.of(0, List.of(broker), 1, List.of(broker));
        admin.createTopics(List.of(new NewTopic(name, where))).all().get();
        eventually("two partitions", () -> describe(name).partitions().size() == 2);
    }

    private void createRefusals() throws Exception {
        String name = topic(1);
        refused(TopicExistsException.class, () -> create(new NewTopic(name, 1, (short) 1)));
        refused(InvalidTopicException.class, () -> create(new NewTopic("bad name", 1, (short) 1)));
        refused(InvalidPartitionsException.class, () -> create(new NewTopic("java-none-" + mark, 0, (short) 1)));
        refused(InvalidReplicationFactorException.class, () -> create(new NewTopic("java-three-" + mark, 1, (short) 3)));
        Map<String, String> bad = Map.of("retention.ms", "soon");
        refused(InvalidConfigurationException.class, () -> create(new NewTopic("java-c-" + mark, 1, (short) 1).configs(bad)));
    }

    private void create(NewTopic wanted) throws Exception {
        admin.createTopics(List.of(wanted)).all().get();
    }

    private void deleteTopics() throws Exception {
        String first = topic(1);
        String second = topic(1);
        admin.deleteTopics(List.of(first)).all().get();
        Uuid topicId = describe(second).topicId();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(topicId))).all().get();
        eventually("no topics", () -> Collections.disjoint(admin.listTopics().names().get(), Set.of(first, second)));
        refused(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(first)).all().get());
        refused(UnknownTopicIdException.class, () ->
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).all().get());
    }

    private void describeTopics() throws Exception {
        String name = topic(5);
        TopicDescription byName = describe(name);
        Uuid topicId = byName.topicId();
        TopicCollection.TopicIdCollection ids = TopicCollection.ofTopicIds(List.of(topicId));
        equal(name, admin.describeTopics(ids).allTopicIds().get().get(topicId).name());
        DescribeTopicsOptions pages = new DescribeTopicsOptions()
            .includeAuthorizedOperations(true).partitionSizeLimitPerResponse(2);
        TopicDescription inPages = admin.describeTopics(List.of(name), pages).allTopicNames().get().get(name);
        equal(5, inPages.partitions().size());
        require(!inPages.authorizedOperations().isEmpty(), "no authorized operations");
        equal(byName.partitions().get(0).leader().id(), byName.partitions().get(0).isr().get(0).id());
        refused(UnknownTopicOrPartitionException.class, () -> describe("java-nothing-" + mark));
    }

    private void createPartitions() throws Exception {
        String name = topic(2);
        Map<String, NewPartitions> more = Map.of(name, NewPartitions.increaseTo(4));
        admin.createPartitions(more, new CreatePartitionsOptions().validateOnly(true)).all().get();
        equal(2, describe(name).partitions().size());
        admin.createPartitions(more).all().get();
        eventually("four partitions", () -> describe(name).partitions().size() == 4);
        refused(InvalidPartitionsException.class, () ->
            admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all().get());
    }

    private void deleteRecords() throws Exception {
        String name = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            send(producer, numbered(name, 10));
        }
        TopicPartition place = new TopicPartition(name, 0);
        Map<TopicPartition, RecordsToDelete> wanted = Map.of(place, RecordsToDelete.beforeOffset(4));
        equal(4L, admin.deleteRecords(wanted).lowWatermarks().get(place).get().lowWatermark());
        equal(4L, offset(place, OffsetSpec.earliest()).offset());
    }

    private Config configs(ConfigResource resource, boolean everything) throws Exception {
        DescribeConfigsOptions options = new DescribeConfigsOptions()
            .includeSynonyms(everything).includeDocumentation(everything);
        return admin.describeConfigs(List.of(resource), options).all().get().get(resource);
    }

    private void describeConfigs() throws Exception {
        String name = topic(1, "retention.bytes", "1000");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        ConfigEntry entry = configs(resource, true).get("retention.bytes");
        equal("1000", entry.value());
        equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, entry.source());
        equal(ConfigEntry.ConfigType.LONG, entry.type());
        equal(2, entry.synonyms().size());
        equal("log.retention.bytes", entry.synonyms().get(1).name());
        require(entry.documentation() != null && !entry.documentation().isEmpty(), "no documentation");
        require(!entry.isSensitive() && !entry.isReadOnly() && !entry.isDefault(), "wrong flags");
        require(configs(resource, false).get("segment.bytes").isDefault(), "not a default");
        refused(UnknownTopicOrPartitionException.class, () ->
            configs(new ConfigResource(ConfigResource.Type.TOPIC, "java-nothing-" + mark), false));
    }

    private void describeBrokerConfigs() throws Exception {
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        Config config = configs(new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(broker)), true);
        equal("1", config.get("num.partitions").value());
        require(config.get("node.id").isReadOnly(), "node.id can be changed");
        for (ConfigEntry entry : config.entries()) {
            require(!entry.isSensitive() || entry.value() == null, entry.name() + " is shown");
        }
    }

    private void alterConfigs() throws Exception {
        String name = topic(1, "retention.bytes", "1000");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        Collection<AlterConfigOp> changes = List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "777"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND),
            new AlterConfigOp(new ConfigEntry("retention.bytes", null), AlterConfigOp.OpType.DELETE));
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        eventually("the change", () -> "777".equals(configs(resource, false).get("retention.ms").value()));
        equal("-1", configs(resource, false).get("retention.bytes").value());
        equal(2, configs(resource, false).get("cleanup.policy").value().split(",").length);
        Collection<AlterConfigOp> bad =
            List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET));
        refused(InvalidConfigurationException.class, () ->
            admin.incrementalAlterConfigs(Map.of(resource, bad)).all().get());
    }

    private void describeCluster() throws Exception {
        DescribeClusterResult result = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        Node node = result.nodes().get().iterator().next();
        equal(bootstrap, node.host() + ":" + node.port());
        equal(node.id(), result.controller().get().id());
        require(!result.clusterId().get().isEmpty(), "no cluster id");
        require(!result.authorizedOperations().get().isEmpty(), "no authorized operations");
    }

    private ListOffsetsResult.ListOffsetsResultInfo offset(TopicPartition place, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(place, spec)).all().get().get(place);
    }

    private void listOffsets() throws Exception {
        String name = topic(1);
        produceAt(name, 0, 1000, 500);
        TopicPartition place = new TopicPartition(name, 0);
        equal(0L, offset(place, OffsetSpec.earliest()).offset());
        equal(3L, offset(place, OffsetSpec.latest()).offset());
        equal(1L, offset(place, OffsetSpec.maxTimestamp()).offset());
        equal(BASE_MS + 1000, offset(place, OffsetSpec.maxTimestamp()).timestamp());
        equal(1L, offset(place, OffsetSpec.forTimestamp(BASE_MS + 1)).offset());
        equal(0L, offset(place, OffsetSpec.earliestLocal()).offset());
    }

    private void describeLogDirs() throws Exception {
        String name = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            send(producer, numbered(name, 10));
        }
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        Map<String, LogDirDescription> found = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
        equal(1, found.size());
        LogDirDescription directory = found.values().iterator().next();
        require(directory.error() == null, "error " + directory.error());
        require(directory.replicaInfos().get(new TopicPartition(name, 0)).size() > 1000, "too small");
        require(directory.totalBytes().getAsLong() > 0, "no total");
    }
}
