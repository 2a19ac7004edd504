// One scenario: names of its own, clients with the settings that it asks for, and what must hold.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Run {
    static final long DEADLINE_MS = 60_000;
    static final long BASE_MS = 1_700_000_000_000L;
    static final Duration POLL = Duration.ofMillis(100);

    final String bootstrap;
    final Admin admin;
    private final String name;
    private final List<AutoCloseable> open = new ArrayList<>();

    Run(String bootstrap, String prefix, String feature, Admin admin) {
        this.bootstrap = bootstrap;
        this.admin = admin;
        this.name = prefix + "." + feature;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    interface Check {
        void run() throws Exception;
    }

    String name() {
        return name;
    }

    String name(String part) {
        return name + "." + part;
    }

    void close() {
        for (AutoCloseable client : open) {
            try {
                client.close();
            } catch (Exception alreadyClosed) {
                // What matters was checked before.
            }
        }
    }

    // ---- clients

    KafkaProducer<byte[], byte[]> producer(String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("delivery.timeout.ms", "60000");
        put(properties, settings);
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
        open.add(() -> producer.close(Duration.ZERO));
        return producer;
    }

    KafkaConsumer<byte[], byte[]> consumer(String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("max.partition.fetch.bytes", "8388608");
        properties.put("fetch.max.wait.ms", "100");
        put(properties, settings);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
        open.add(() -> consumer.close(Duration.ofSeconds(5)));
        return consumer;
    }

    /** A consumer that holds the first partitions of a topic, at their beginning. */
    KafkaConsumer<byte[], byte[]> reader(String topic, int partitions) {
        KafkaConsumer<byte[], byte[]> consumer = consumer();
        consumer.assign(places(topic, partitions));
        consumer.seekToBeginning(places(topic, partitions));
        return consumer;
    }

    private static void put(Properties properties, String[] settings) {
        for (int i = 0; i < settings.length; i += 2) {
            properties.put(settings[i], settings[i + 1]);
        }
    }

    static List<TopicPartition> places(String topic, int partitions) {
        List<TopicPartition> places = new ArrayList<>();
        for (int index = 0; index < partitions; index++) {
            places.add(new TopicPartition(topic, index));
        }
        return places;
    }

    List<RecordMetadata> send(KafkaProducer<byte[], byte[]> producer, List<ProducerRecord<byte[], byte[]>> records)
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

    /** With a producer of its own. */
    List<RecordMetadata> send(List<ProducerRecord<byte[], byte[]>> records) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            return send(producer, records);
        }
    }

    /** Exactly `count` records of one partition, from an offset. */
    List<ConsumerRecord<byte[], byte[]>> read(String topic, int partition, long offset, int count) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("auto.offset.reset", "none")) {
            TopicPartition place = new TopicPartition(topic, partition);
            consumer.assign(List.of(place));
            consumer.seek(place, offset);
            return poll(consumer, count);
        }
    }

    List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int count) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        eventually(count + " records", () -> {
            consumer.poll(POLL).forEach(found::add);
            return found.size() >= count;
        });
        equal(count, found.size());
        return found;
    }

    // ---- topics

    String topic(int partitions, String... configs) throws Exception {
        return topicNamed(name, partitions, configs);
    }

    String topicNamed(String wanted, int partitions, String... configs) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (int i = 0; i < configs.length; i += 2) {
            settings.put(configs[i], configs[i + 1]);
        }
        admin.createTopics(List.of(new NewTopic(wanted, partitions, (short) 1).configs(settings))).all().get();
        eventually("topic " + wanted, () -> describe(wanted).partitions().size() == partitions);
        // Apache Kafka may answer before the partitions have their leader.
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        places(wanted, partitions).forEach(place -> latest.put(place, OffsetSpec.latest()));
        admin.listOffsets(latest).all().get();
        return wanted;
    }

    TopicDescription describe(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    long offset(String topic, OffsetSpec spec) throws Exception {
        TopicPartition place = new TopicPartition(topic, 0);
        return admin.listOffsets(Map.of(place, spec)).all().get().get(place).offset();
    }

    int broker() throws Exception {
        return admin.describeCluster().nodes().get().iterator().next().id();
    }

    // ---- records

    static ProducerRecord<byte[], byte[]> record(String topic, String key, String value) {
        return new ProducerRecord<>(topic, 0, key == null ? null : bytes(key), value == null ? null : bytes(value));
    }

    static List<ProducerRecord<byte[], byte[]>> numbered(String topic, int count) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(record(topic, "key " + i, ("value " + i + " ").repeat(20)));
        }
        return records;
    }

    static void checkNumbered(List<ConsumerRecord<byte[], byte[]>> found, int count) {
        equal(count, found.size());
        for (int i = 0; i < count; i++) {
            equal((long) i, found.get(i).offset());
            equal("key " + i, text(found.get(i).key()));
            equal(("value " + i + " ").repeat(20), text(found.get(i).value()));
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    // ---- what must hold

    static void eventually(String what, Condition condition) throws Exception {
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
            Thread.sleep(5);
        }
        throw new AssertionError("never: " + what);
    }

    static void require(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object expected, Object found) {
        require(expected == null ? found == null : expected.equals(found), "expected " + expected + ", found " + found);
    }

    static void refused(Class<? extends Throwable> kind, Check check) throws Exception {
        try {
            check.run();
        } catch (ExecutionException error) {
            require(kind.isInstance(error.getCause()), "expected " + kind.getSimpleName() + ", got " + error.getCause());
            require(error.getCause().getMessage() != null, "the error has no message");
            return;
        }
        throw new AssertionError("not refused with " + kind.getSimpleName());
    }
}
