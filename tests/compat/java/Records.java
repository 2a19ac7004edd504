// Scenarios of the area "Records": what goes in comes out.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;

final class Records {
    private Records() {
    }

    static void add(Map<String, Compat.Scenario> all) {
        all.put("round-trip", run -> exchange(run, 500));
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            all.put(codec, run -> exchange(run, 500, "compression.type", codec));
        }
        all.put("acks", Records::acks);
        all.put("idempotent", run -> exchange(run, 1000, "batch.size", "2000", "linger.ms", "0"));
        all.put("batching", run -> exchange(run, 2000, "batch.size", "100000", "linger.ms", "50"));
        all.put("headers", run -> headers(run, new RecordHeader("trace", Run.bytes("abc")),
            new RecordHeader("repeated", Run.bytes("1")), new RecordHeader("repeated", Run.bytes("2")),
            new RecordHeader("empty", new byte[0])));
        all.put("null-headers", run -> headers(run, new RecordHeader("nothing", (byte[]) null),
            new RecordHeader("something", Run.bytes("x"))));
        all.put("nulls", Records::nulls);
        all.put("large", Records::large);
        all.put("too-large", Records::tooLarge);
        all.put("partitions", Records::partitions);
        all.put("timestamps", Records::timestamps);
        all.put("auto-create", Records::autoCreate);
    }

    private static void exchange(Run run, int count, String... settings) throws Exception {
        String topic = run.topic(1);
        try (KafkaProducer<byte[], byte[]> producer = run.producer(settings)) {
            List<RecordMetadata> answers = run.send(producer, Run.numbered(topic, count));
            for (int i = 0; i < count; i++) {
                Run.equal((long) i, answers.get(i).offset());
            }
        }
        Run.checkNumbered(run.read(topic, 0, 0, count), count);
    }

    private static void acks(Run run) throws Exception {
        for (String acks : List.of("0", "1", "all")) {
            String topic = run.topicNamed(run.name(acks), 1);
            try (KafkaProducer<byte[], byte[]> producer = run.producer("acks", acks, "enable.idempotence", "false")) {
                run.send(producer, Run.numbered(topic, 10));
            }
            Run.checkNumbered(run.read(topic, 0, 0, 10), 10);
        }
    }

    private static void headers(Run run, Header... headers) throws Exception {
        String topic = run.topic(1);
        run.send(List.of(new ProducerRecord<>(topic, 0, Run.bytes("k"), Run.bytes("v"), List.of(headers))));
        Header[] found = run.read(topic, 0, 0, 1).get(0).headers().toArray();
        Run.equal(headers.length, found.length);
        for (int i = 0; i < headers.length; i++) {
            Run.equal(headers[i].key(), found[i].key());
            Run.require(Arrays.equals(headers[i].value(), found[i].value()), "the value of " + headers[i].key());
        }
    }

    private static void nulls(Run run) throws Exception {
        String topic = run.topic(1);
        String[][] pairs = {{null, "v"}, {"k", null}, {"", "v"}, {"k", ""}};
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (String[] pair : pairs) {
            records.add(Run.record(topic, pair[0], pair[1]));
        }
        run.send(records);
        List<ConsumerRecord<byte[], byte[]>> found = run.read(topic, 0, 0, pairs.length);
        for (int i = 0; i < pairs.length; i++) {
            Run.equal(pairs[i][0], Run.text(found.get(i).key()));
            Run.equal(pairs[i][1], Run.text(found.get(i).value()));
        }
    }

    private static void large(Run run) throws Exception {
        String topic = run.topic(1, "max.message.bytes", "3000000");
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (char letter : "ABC".toCharArray()) {
            byte[] value = new byte[1_048_576];
            Arrays.fill(value, (byte) letter);
            records.add(new ProducerRecord<>(topic, 0, null, value));
        }
        try (KafkaProducer<byte[], byte[]> producer = run.producer("max.request.size", "3000000")) {
            run.send(producer, records);
        }
        List<ConsumerRecord<byte[], byte[]>> found = run.read(topic, 0, 0, 3);
        for (int i = 0; i < 3; i++) {
            Run.require(Arrays.equals(records.get(i).value(), found.get(i).value()), "value " + i + " changed");
        }
    }

    private static void tooLarge(Run run) throws Exception {
        String topic = run.topic(1, "max.message.bytes", "100000");
        try (KafkaProducer<byte[], byte[]> producer = run.producer()) {
            Run.refused(RecordTooLargeException.class, () ->
                run.send(producer, List.of(Run.record(topic, "k", "x".repeat(200_000)))));
            Run.equal(0L, run.send(producer, List.of(Run.record(topic, "k", "small"))).get(0).offset());
        }
    }

    /** Several rounds, so that the consumer's fetch session goes on incrementally. */
    private static void partitions(Run run) throws Exception {
        String topic = run.topic(100);
        try (KafkaProducer<byte[], byte[]> producer = run.producer();
                KafkaConsumer<byte[], byte[]> consumer = run.reader(topic, 100)) {
            Run.equal(100, producer.partitionsFor(topic).size());
            for (int round = 0; round < 3; round++) {
                List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
                for (int i = 0; i < 100; i++) {
                    records.add(new ProducerRecord<>(topic, i, null, Run.bytes(round + " for " + i)));
                }
                run.send(producer, records);
                for (ConsumerRecord<byte[], byte[]> one : run.poll(consumer, 100)) {
                    Run.equal(round + " for " + one.partition(), Run.text(one.value()));
                    Run.equal((long) round, one.offset());
                }
            }
        }
    }

    private static void timestamps(Run run) throws Exception {
        String kept = run.topicNamed(run.name("create"), 1, "retention.ms", "-1");
        String stamped = run.topicNamed(run.name("append"), 1, "message.timestamp.type", "LogAppendTime");
        long before = System.currentTimeMillis();
        List<RecordMetadata> answers = run.send(List.of(
            new ProducerRecord<>(kept, 0, Run.BASE_MS, null, Run.bytes("v")),
            new ProducerRecord<>(stamped, 0, Run.BASE_MS, null, Run.bytes("v"))));
        Run.require(answers.get(1).timestamp() >= before, "the producer was told " + answers.get(1).timestamp());
        ConsumerRecord<byte[], byte[]> first = run.read(kept, 0, 0, 1).get(0);
        Run.equal(Run.BASE_MS, first.timestamp());
        Run.equal(TimestampType.CREATE_TIME, first.timestampType());
        ConsumerRecord<byte[], byte[]> second = run.read(stamped, 0, 0, 1).get(0);
        Run.require(second.timestamp() >= before, "the consumer was told " + second.timestamp());
        Run.equal(TimestampType.LOG_APPEND_TIME, second.timestampType());
    }

    private static void autoCreate(Run run) throws Exception {
        Run.equal(0L, run.send(List.of(new ProducerRecord<>(run.name(), Run.bytes("first")))).get(0).offset());
        Run.equal("first", Run.text(run.read(run.name(), 0, 0, 1).get(0).value()));
        Run.equal(1, run.describe(run.name()).partitions().size());
    }
}
