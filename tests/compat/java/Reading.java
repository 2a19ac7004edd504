// Scenarios of the area "Reading": where a consumer may start, stop and wait.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;

final class Reading {
    private Reading() {
    }

    static void add(Map<String, Compat.Scenario> all) {
        all.put("seek-time", Reading::seekTime);
        all.put("seek-ends", Reading::seekEnds);
        all.put("pause-resume", Reading::pauseResume);
        all.put("tail", Reading::tail);
        all.put("reset", Reading::reset);
        all.put("watermarks", Reading::watermarks);
        all.put("compacted", Reading::compacted);
    }

    private static void seekTime(Run run) throws Exception {
        String topic = run.topic(1, "retention.ms", "-1");
        try (KafkaProducer<byte[], byte[]> producer = run.producer()) {
            for (long later : new long[] {0, 1, 2, 1000, 1001}) {
                run.send(producer, List.of(
                    new ProducerRecord<>(topic, 0, Run.BASE_MS + later, null, Run.bytes("at " + later))));
            }
        }
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = run.reader(topic, 1)) {
            for (long[] pair : new long[][] {{-1, 0}, {1, 1}, {3, 3}, {1001, 4}}) {
                Run.equal(pair[1], consumer.offsetsForTimes(Map.of(place, Run.BASE_MS + pair[0])).get(place).offset());
            }
            Run.equal(null, consumer.offsetsForTimes(Map.of(place, Run.BASE_MS + 2000)).get(place));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(place, Run.BASE_MS + 3)).get(place);
            Run.equal(Run.BASE_MS + 1000, found.timestamp());
            consumer.seek(place, found.offset());
            Run.equal("at 1000", Run.text(run.poll(consumer, 2).get(0).value()));
        }
    }

    private static void seekEnds(Run run) throws Exception {
        String topic = run.topic(1);
        try (KafkaProducer<byte[], byte[]> producer = run.producer("linger.ms", "50", "batch.size", "100000")) {
            run.send(producer, Run.numbered(topic, 100));
        }
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = run.reader(topic, 1)) {
            Run.checkNumbered(run.poll(consumer, 100), 100);
            for (long start : List.of(57L, 3L, 99L)) {
                consumer.seek(place, start);
                List<ConsumerRecord<byte[], byte[]>> found = run.poll(consumer, (int) (100 - start));
                Run.equal(start, found.get(0).offset());
                Run.equal("key " + start, Run.text(found.get(0).key()));
            }
            consumer.seekToBeginning(List.of(place));
            Run.checkNumbered(run.poll(consumer, 100), 100);
            consumer.seekToEnd(List.of(place));
            Run.equal(100L, consumer.position(place));
            run.send(List.of(Run.record(topic, "k", "news")));
            Run.equal("news", Run.text(run.poll(consumer, 1).get(0).value()));
            Run.equal(101L, consumer.position(place));
        }
    }

    private static List<ProducerRecord<byte[], byte[]>> toBoth(String topic, int each) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < 2 * each; i++) {
            records.add(new ProducerRecord<>(topic, i % 2, null, Run.bytes("record " + i)));
        }
        return records;
    }

    private static void pauseResume(Run run) throws Exception {
        String topic = run.topic(2);
        List<TopicPartition> second = List.of(new TopicPartition(topic, 1));
        try (KafkaConsumer<byte[], byte[]> consumer = run.reader(topic, 2)) {
            run.send(toBoth(topic, 1));
            run.poll(consumer, 2);
            consumer.pause(second);
            run.send(toBoth(topic, 5));
            for (ConsumerRecord<byte[], byte[]> one : run.poll(consumer, 5)) {
                Run.equal(0, one.partition());
            }
            for (int i = 0; i < 3; i++) {
                Run.equal(0, consumer.poll(Run.POLL).count());
            }
            consumer.resume(second);
            List<ConsumerRecord<byte[], byte[]>> found = run.poll(consumer, 5);
            for (int i = 0; i < 5; i++) {
                Run.equal(1, found.get(i).partition());
                Run.equal(1L + i, found.get(i).offset());
            }
        }
    }

    private static void tail(Run run) throws Exception {
        String topic = run.topic(1);
        try (KafkaConsumer<byte[], byte[]> consumer = run.reader(topic, 1)) {
            Run.equal(0, consumer.poll(Run.POLL).count());
            for (int number = 0; number < 3; number++) {
                run.send(List.of(Run.record(topic, null, "" + number)));
                Run.equal("" + number, Run.text(run.poll(consumer, 1).get(0).value()));
            }
        }
    }

    /** The policy "earliest" applies; with the policy "none" the application is told. */
    private static void reset(Run run) throws Exception {
        String topic = run.topic(1);
        run.send(Run.numbered(topic, 10));
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = run.reader(topic, 1)) {
            run.poll(consumer, 10);
            consumer.seek(place, 1000);
            Run.checkNumbered(run.poll(consumer, 10), 10);
        }
        try (KafkaConsumer<byte[], byte[]> consumer = run.consumer("auto.offset.reset", "none")) {
            consumer.assign(List.of(place));
            consumer.seek(place, 1000);
            Run.eventually("OffsetOutOfRangeException", () -> {
                try {
                    consumer.poll(Run.POLL);
                    return false;
                } catch (OffsetOutOfRangeException told) {
                    return told.offsetOutOfRangePartitions().equals(Map.of(place, 1000L));
                }
            });
        }
    }

    private static void watermarks(Run run) throws Exception {
        String topic = run.topic(1);
        List<TopicPartition> places = Run.places(topic, 1);
        try (KafkaConsumer<byte[], byte[]> consumer = run.consumer()) {
            Run.equal(Map.of(places.get(0), 0L), consumer.endOffsets(places));
            run.send(Run.numbered(topic, 7));
            Run.equal(Map.of(places.get(0), 0L), consumer.beginningOffsets(places));
            Run.equal(Map.of(places.get(0), 7L), consumer.endOffsets(places));
        }
    }

    private static void compacted(Run run) throws Exception {
        String topic = run.topic(1, "cleanup.policy", "compact", "segment.ms", "50",
            "min.cleanable.dirty.ratio", "0.001", "delete.retention.ms", "0");
        Run.refused(InvalidRecordException.class, () -> run.send(List.of(Run.record(topic, null, "no key"))));
        try (KafkaProducer<byte[], byte[]> producer = run.producer()) {
            for (int turn = 0; turn < 20; turn++) {
                List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
                for (int key = 0; key < 10; key++) {
                    records.add(Run.record(topic, "k" + key, "" + turn));
                }
                run.send(producer, records);
            }
            run.send(producer, List.of(Run.record(topic, "k9", null)));
            List<String> rows = new ArrayList<>();
            Run.eventually("a cleaned log", () -> {
                // A record rolls the segment before it, which the cleaner may then take.
                run.send(producer, List.of(Run.record(topic, "tick", "")));
                rows.clear();
                rows.addAll(everything(run, topic));
                return rows.size() == 9;
            });
            List<String> expected = new ArrayList<>();
            for (int key = 0; key < 9; key++) {
                expected.add((190 + key) + " k" + key + " 19");
            }
            Run.equal(expected, rows);
        }
    }

    /** Offset, key and value of each record but the ticks. */
    private static List<String> everything(Run run, String topic) throws Exception {
        long end = run.offset(topic, OffsetSpec.latest());
        List<String> rows = new ArrayList<>();
        long[] next = {0};
        try (KafkaConsumer<byte[], byte[]> consumer = run.reader(topic, 1)) {
            Run.eventually("the end", () -> {
                consumer.poll(Run.POLL).forEach(one -> {
                    next[0] = one.offset() + 1;
                    if (!Arrays.equals(one.key(), Run.bytes("tick"))) {
                        rows.add(one.offset() + " " + Run.text(one.key()) + " " + Run.text(one.value()));
                    }
                });
                return next[0] == end;
            });
        }
        return rows;
    }
}
