// Scenarios of the area "Consumer groups".

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

final class Groups {
    static final int PARTITIONS = 4;
    static final int EACH = 25;

    private Groups() {
    }

    static void add(Map<String, Compat.Scenario> all) {
        all.put("group-eager", run -> shareAndLeave(run, EAGER, EAGER));
        all.put("group-cooperative", Groups::cooperative);
        all.put("group-static", Groups::staticMembers);
        all.put("commit-metadata", Groups::commitMetadata);
        all.put("auto-commit", Groups::autoCommit);
        all.put("kip848", Groups::nextGeneration);
        all.put("kip848-migration", run -> shareAndLeave(run, EAGER, CONSUMER));
    }

    private static final String[] EAGER = classic(RangeAssignor.class);
    private static final String[] COOPERATIVE = classic(CooperativeStickyAssignor.class);
    static final String[] CONSUMER = {"group.protocol", "consumer"};

    private static String[] classic(Class<?> assignor) {
        return new String[] {"partition.assignment.strategy", assignor.getName(), "heartbeat.interval.ms", "100",
            "session.timeout.ms", "10000"};
    }

    /** A member of the group that is named as its topic, and what it was told and given. */
    static final class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Set<Integer> revoked = new TreeSet<>();
        final List<String> values = new ArrayList<>();
        int rebalances = 0;

        Member(Run run, String group, String... settings) {
            String[] all = new String[settings.length + 2];
            System.arraycopy(settings, 0, all, 0, settings.length);
            all[settings.length] = "group.id";
            all[settings.length + 1] = group;
            consumer = run.consumer(all);
        }

        Member subscribe(String topic) {
            consumer.subscribe(List.of(topic), this);
            return this;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(place -> revoked.add(place.partition()));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances++;
        }

        void poll() {
            for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(50))) {
                values.add(Run.text(one.value()));
            }
        }

        Set<Integer> held() {
            Set<Integer> held = new TreeSet<>();
            consumer.assignment().forEach(place -> held.add(place.partition()));
            return held;
        }

        void commit(String topic, long offset, String metadata) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            consumer.assignment().forEach(place -> offsets.put(place, new OffsetAndMetadata(offset, metadata)));
            consumer.commitSync(offsets);
        }
    }

    static Member member(Run run, String topic, String... settings) {
        return new Member(run, topic, settings).subscribe(topic);
    }

    /** Every partition held by exactly one of them, and no member without. */
    private static boolean allHeld(Member... members) {
        List<Integer> held = new ArrayList<>();
        for (Member member : members) {
            if (member.held().isEmpty()) {
                return false;
            }
            held.addAll(member.held());
        }
        return held.size() == PARTITIONS && new HashSet<>(held).size() == PARTITIONS;
    }

    static void pollUntil(String what, Run.Condition condition, Member... members) throws Exception {
        Run.eventually(what, () -> {
            for (Member member : members) {
                member.poll();
            }
            return condition.holds();
        });
    }

    /** Records into every partition, read by the members: each exactly once. */
    private static void fillAndRead(Run run, String topic, String mark, Member... members) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        Set<String> expected = new TreeSet<>();
        for (int i = 0; i < PARTITIONS * EACH; i++) {
            String value = mark + i;
            expected.add(value);
            records.add(new ProducerRecord<>(topic, i % PARTITIONS, null, Run.bytes(value)));
        }
        for (Member member : members) {
            member.values.clear();
        }
        run.send(records);
        List<String> found = new ArrayList<>();
        pollUntil("every record", () -> {
            found.clear();
            for (Member member : members) {
                found.addAll(member.values);
            }
            return found.size() >= expected.size();
        }, members);
        Run.equal(expected.size(), found.size());
        Run.equal(expected, new TreeSet<>(found));
    }

    private static Member shareAndLeave(Run run, String[] first, String[] second) throws Exception {
        String topic = run.topic(PARTITIONS);
        Member one = member(run, topic, first);
        pollUntil("everything for one member", () -> allHeld(one), one);
        Member two = member(run, topic, second);
        pollUntil("a share for each", () -> allHeld(one, two), one, two);
        Run.equal(2, one.held().size());
        fillAndRead(run, topic, "shared ", one, two);
        one.commit(topic, EACH, "");
        two.commit(topic, EACH, "");
        one.consumer.close();
        pollUntil("everything for the other", () -> allHeld(two), two);
        Map<TopicPartition, OffsetAndMetadata> committed = two.consumer.committed(new HashSet<>(Run.places(topic, PARTITIONS)));
        for (TopicPartition place : Run.places(topic, PARTITIONS)) {
            Run.equal((long) EACH, committed.get(place).offset());
        }
        return two;
    }

    private static void cooperative(Run run) throws Exception {
        String topic = run.topic(PARTITIONS);
        Member one = member(run, topic, COOPERATIVE);
        pollUntil("everything for one member", () -> allHeld(one), one);
        Member two = member(run, topic, COOPERATIVE);
        pollUntil("a share for each", () -> allHeld(one, two), one, two);
        Set<Integer> given = new TreeSet<>(two.held());
        Run.equal(given, one.revoked);
        fillAndRead(run, topic, "shared ", one, two);
    }

    private static void staticMembers(Run run) throws Exception {
        String topic = run.topic(PARTITIONS);
        Member one = member(run, topic, with(EAGER, "group.instance.id", "one"));
        Member two = member(run, topic, with(EAGER, "group.instance.id", "two"));
        pollUntil("a share for each", () -> allHeld(one, two), one, two);
        fillAndRead(run, topic, "before ", one, two);
        Set<Integer> held = two.held();
        int rebalances = one.rebalances;
        two.consumer.close();
        Member again = member(run, topic, with(EAGER, "group.instance.id", "two"));
        pollUntil("the share again", () -> allHeld(one, again), one, again);
        Run.equal(held, again.held());
        // Nothing was committed, so the restarted member has read its half before.
        again.consumer.seekToEnd(again.consumer.assignment());
        for (TopicPartition place : again.consumer.assignment()) {
            again.consumer.position(place);
        }
        fillAndRead(run, topic, "after ", one, again);
        Run.equal(rebalances, one.rebalances);
    }

    private static String[] with(String[] settings, String... more) {
        String[] all = new String[settings.length + more.length];
        System.arraycopy(settings, 0, all, 0, settings.length);
        System.arraycopy(more, 0, all, settings.length, more.length);
        return all;
    }

    private static void commitMetadata(Run run) throws Exception {
        String topic = run.topic(1);
        run.send(Run.numbered(topic, 10));
        TopicPartition place = new TopicPartition(topic, 0);
        Member one = member(run, topic, EAGER);
        pollUntil("ten records", () -> one.values.size() == 10, one);
        one.commit(topic, 4, "see page 7");
        OffsetAndMetadata found = one.consumer.committed(Set.of(place)).get(place);
        Run.equal(4L, found.offset());
        Run.equal("see page 7", found.metadata());
        one.consumer.close();
        Member two = member(run, topic, EAGER);
        pollUntil("what was not committed", () -> two.values.size() == 6, two);
        Run.equal("value 4 ".repeat(20), two.values.get(0));
    }

    private static void autoCommit(Run run) throws Exception {
        String topic = run.topic(1);
        run.send(Run.numbered(topic, 10));
        Member one = member(run, topic, with(EAGER, "enable.auto.commit", "true"));
        pollUntil("ten records", () -> one.values.size() == 10, one);
        one.consumer.close();
        TopicPartition place = new TopicPartition(topic, 0);
        Run.equal(10L, Offsets.committed(run, topic).get(place).offset());
    }

    private static void nextGeneration(Run run) throws Exception {
        Member two = shareAndLeave(run, CONSUMER, CONSUMER);
        two.consumer.close();
        run.send(List.of(Run.record(run.name(), null, "later")));
        Member three = member(run, run.name(), CONSUMER);
        pollUntil("what is new", () -> !three.values.isEmpty(), three);
        Run.equal(List.of("later"), three.values);
    }
}
