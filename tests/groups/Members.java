// Consumers of kafka-clients in one JVM, driven by lines on stdin; what happens to them is told on stdout, in order.
//
//   start <name> <group> <classic|consumer> <instance or -> <topic,topic or /regex/> [property=value ...]
//   stop <name>          closes the consumer, and says "stopped <name>" when it is closed
//
// Told: "assigned|revoked|lost <name> <topic-partition ...>", "record <name> <topic> <partition> <offset>",
// "failed <name> <why>". Records are committed after each poll.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Members {
    private static final Map<String, Member> MEMBERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("start")) {
                Member member = new Member(arguments[0], words);
                MEMBERS.put(words[1], member);
                member.start();
            } else if (words[0].equals("stop")) {
                MEMBERS.remove(words[1]).close();
            }
        }
        for (Member member : MEMBERS.values()) {
            member.close();
        }
    }

    private static void tell(String text) {
        synchronized (System.out) {
            System.out.println(text);
            System.out.flush();
        }
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String name;
        private final KafkaConsumer<String, String> consumer;

        Member(String bootstrap, String[] words) {
            name = words[1];
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", words[2]);
            properties.put("group.protocol", words[3]);
            if (!words[4].equals("-")) {
                properties.put("group.instance.id", words[4]);
            }
            properties.put("client.id", name);
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            if (words[3].equals("classic")) {
                properties.put("heartbeat.interval.ms", "200");
                properties.put("session.timeout.ms", "10000");
            }
            for (int index = 6; index < words.length; index++) {
                String[] pair = words[index].split("=", 2);
                properties.put(pair[0], pair[1]);
            }
            consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            if (words[5].startsWith("/")) {
                consumer.subscribe(new SubscriptionPattern(words[5].substring(1, words[5].length() - 1)), this);
            } else {
                consumer.subscribe(Arrays.asList(words[5].split(",")), this);
            }
        }

        @Override
        public void run() {
            try (consumer) {
                while (true) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(50));
                    for (ConsumerRecord<String, String> record : records) {
                        tell("record " + name + " " + record.topic() + " " + record.partition() + " " + record.offset());
                    }
                    commit(!records.isEmpty());
                }
            } catch (WakeupException closing) {
                // asked to stop
            } catch (Exception problem) {
                tell("failed " + name + " " + problem);
            }
            tell("stopped " + name);
        }

        private void commit(boolean needed) {
            if (!needed) {
                return;
            }
            try {
                consumer.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException moved) {
                tell("uncommitted " + name);
            }
        }

        void close() throws InterruptedException {
            consumer.wakeup();
            join();
        }

        private void told(String what, Collection<TopicPartition> partitions) {
            String places = partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(" "));
            tell(what + " " + name + " " + places);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            told("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            told("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            told("lost", partitions);
        }
    }
}
