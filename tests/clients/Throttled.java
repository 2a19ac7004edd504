import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own clients under quotas: `bootstrap topic client-id records` in, `name value` lines out. */
public final class Throttled {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int records = Integer.parseInt(arguments[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", arguments[2]);
        settings.put("enable.auto.commit", "false");
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < records; number++)
                producer.send(new ProducerRecord<>(topic, 0, null, new byte[1000]));
            producer.flush();
            show("produce-throttle-time-max", producer.metrics());
        }
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            int seen = 0;
            while (seen < records) seen += consumer.poll(Duration.ofSeconds(1)).count();
            System.out.println("consumed " + seen);
            show("fetch-throttle-time-max", consumer.metrics());
        }
        try (Admin admin = Admin.create(settings)) {
            List<String> outcomes = new ArrayList<>();
            for (int number = 0; number < 2; number++) outcomes.add(created(admin, topic + "-made-" + number));
            System.out.println("created " + String.join(",", outcomes));
        }
    }

    private static String created(Admin admin, String name) throws Exception {
        CreateTopicsOptions options = new CreateTopicsOptions().retryOnQuotaViolation(false);
        try {
            admin.createTopics(List.of(new NewTopic(name, 20, (short) 1)), options).all().get();
            return "ok";
        } catch (ExecutionException error) {
            if (error.getCause() instanceof ThrottlingQuotaExceededException later)
                return "later:" + (later.throttleTimeMs() > 0);
            throw error;
        }
    }

    private static void show(String name, Map<MetricName, ? extends Metric> metrics) {
        metrics.forEach((key, metric) -> {
            if (key.name().equals(name) && key.tags().size() == 1) System.out.println(name + " " + metric.metricValue());
        });
    }
}
