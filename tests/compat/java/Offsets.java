// Scenarios of the area "Groups and offsets, administered".

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;

final class Offsets {
    private Offsets() {
    }

    static void add(Map<String, Compat.Scenario> all) {
        all.put("groups-describe", Offsets::describe);
        all.put("group-offsets-list", Offsets::list);
        all.put("group-offsets-alter", Offsets::alter);
        all.put("group-offsets-delete", Offsets::deleteOffsets);
        all.put("groups-delete", Offsets::delete);
    }

    static Map<TopicPartition, OffsetAndMetadata> committed(Run run, String group) throws Exception {
        return run.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private static Set<String> listed(Run run) throws Exception {
        Set<String> names = new TreeSet<>();
        run.admin.listConsumerGroups().all().get().forEach(group -> names.add(group.groupId()));
        return names;
    }

    private static ConsumerGroupDescription described(Run run, String group) throws Exception {
        return run.admin.describeConsumerGroups(List.of(group)).all().get().get(group);
    }

    private static void describe(Run run) throws Exception {
        String topic = run.topic(2);
        Groups.Member member = Groups.member(run, topic, "client.id", "who", "heartbeat.interval.ms", "100");
        Groups.pollUntil("an assignment", () -> member.held().size() == 2, member);
        Run.require(listed(run).contains(topic), "not listed");
        ConsumerGroupDescription group = described(run, topic);
        Run.equal("Stable", group.state().toString());
        Run.equal("range", group.partitionAssignor());
        Run.equal(1, group.members().size());
        MemberDescription only = group.members().iterator().next();
        Run.equal("who", only.clientId());
        Run.equal(Set.copyOf(Run.places(topic, 2)), only.assignment().topicPartitions());
        member.consumer.close();
        Run.eventually("an empty group", () -> described(run, topic).state().toString().equals("Empty"));
    }

    /** A group without members that has committed 5 on each of two partitions; named as its topic. */
    private static String committedGroup(Run run) throws Exception {
        String topic = run.topic(2);
        for (int i = 0; i < 16; i++) {
            run.send(List.of(new ProducerRecord<>(topic, i % 2, null, Run.bytes("" + i / 2))));
        }
        Groups.Member member = Groups.member(run, topic, "heartbeat.interval.ms", "100");
        Groups.pollUntil("an assignment", () -> member.held().size() == 2, member);
        member.commit(topic, 5, "five");
        member.consumer.close();
        return topic;
    }

    private static void list(Run run) throws Exception {
        String group = committedGroup(run);
        Map<TopicPartition, OffsetAndMetadata> found = committed(run, group);
        Run.equal(2, found.size());
        for (TopicPartition place : Run.places(group, 2)) {
            Run.equal(5L, found.get(place).offset());
            Run.equal("five", found.get(place).metadata());
        }
    }

    private static void alter(Run run) throws Exception {
        String group = committedGroup(run);
        List<TopicPartition> places = Run.places(group, 2);
        run.admin.alterConsumerGroupOffsets(group,
            Map.of(places.get(0), new OffsetAndMetadata(8), places.get(1), new OffsetAndMetadata(2))).all().get();
        Run.equal(8L, committed(run, group).get(places.get(0)).offset());
        Run.equal(2L, committed(run, group).get(places.get(1)).offset());
        Groups.Member member = Groups.member(run, group, "heartbeat.interval.ms", "100");
        Groups.pollUntil("what is left", () -> member.values.size() >= 6, member);
        Run.equal(List.of("2", "3", "4", "5", "6", "7"), member.values);
    }

    private static void deleteOffsets(Run run) throws Exception {
        String group = committedGroup(run);
        List<TopicPartition> places = Run.places(group, 2);
        run.admin.deleteConsumerGroupOffsets(group, Set.of(places.get(0))).all().get();
        Run.equal(Set.of(places.get(1)), committed(run, group).keySet());
    }

    private static void delete(Run run) throws Exception {
        String group = committedGroup(run);
        Groups.Member member = Groups.member(run, group, "heartbeat.interval.ms", "100");
        Groups.pollUntil("an assignment", () -> member.held().size() == 2, member);
        Run.refused(GroupNotEmptyException.class, () -> run.admin.deleteConsumerGroups(List.of(group)).all().get());
        member.consumer.close();
        run.admin.deleteConsumerGroups(List.of(group)).all().get();
        Run.require(!listed(run).contains(group), "still listed");
        Run.refused(GroupIdNotFoundException.class, () -> run.admin.deleteConsumerGroups(List.of(group)).all().get());
    }
}
