package org.apache.kafka.tools;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * ConsumerPerformance with its consumer assigning itself every partition instead of joining a group: it measures
 * fetching and not a rebalance, and runs against a broker without groups. In Kafka's package because run() is
 * package-private.
 */
public final class AssignedConsumerPerformance {
    public static void main(String[] arguments) {
        ConsumerPerformance.run(arguments, SelfAssigning::new);
    }

    private static final class SelfAssigning extends KafkaConsumer<byte[], byte[]> {
        SelfAssigning(Properties properties) {
            super(withoutGroup(properties));
        }

        private static Properties withoutGroup(Properties properties) {
            Properties own = new Properties();
            own.putAll(properties);
            own.remove("group.id");
            own.put("enable.auto.commit", "false");
            return own;
        }

        @Override
        public void subscribe(Collection<String> topics, ConsumerRebalanceListener listener) {
            List<TopicPartition> all = new ArrayList<>();
            for (String topic : topics) {
                for (PartitionInfo partition : partitionsFor(topic)) {
                    all.add(new TopicPartition(topic, partition.partition()));
                }
            }
            assign(all);
            seekToBeginning(all);
            listener.onPartitionsAssigned(all);
        }
    }
}
