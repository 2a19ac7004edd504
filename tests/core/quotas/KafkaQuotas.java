import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/** Apache Kafka's own quota managers, driven by lines on stdin; one line comes out for each that asks something. */
public final class KafkaQuotas {
    private static final class Clock implements Time {
        long now = 0;

        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { now += ms; }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    }

    private static final Clock CLOCK = new Clock();
    private static ClientQuotaManager rates;
    private static ControllerMutationQuotaManager mutations;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer = answer(line.split(" "));
            if (answer != null) System.out.println(answer);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);  // the managers' threads would keep us
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "new":  // new <samples> <seconds>
                stop();
                ClientQuotaManagerConfig config =
                    new ClientQuotaManagerConfig(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                rates = new ClientQuotaManager(config, new Metrics(CLOCK), QuotaType.PRODUCE, CLOCK, "rates");
                mutations = new ControllerMutationQuotaManager(
                    config, new Metrics(CLOCK), CLOCK, "mutations", Optional.empty());
                return null;
            case "quota":  // quota <user> <client> <limit>; '-' is absent, '*' the default, limit '-' removes
                Optional<Quota> limit = words[3].equals("-")
                    ? Optional.empty() : Optional.of(Quota.upperBound(Double.parseDouble(words[3])));
                rates.updateQuota(user(words[1]), client(words[2]), limit);
                mutations.updateQuota(user(words[1]), client(words[2]), limit);
                return null;
            case "find":  // find <user> <client>: who shares it, and the limit
                return rates.getOrCreateQuotaSensors(session(words[1]), name(words[2])).metricTags().values()
                    + " " + rates.quota(words[1], name(words[2])).bound();
            case "record":  // record <user> <client> <value> <ms>
                return "" + rates.recordAndGetThrottleTimeMs(
                    session(words[1]), name(words[2]), Double.parseDouble(words[3]), Long.parseLong(words[4]));
            case "unrecord":
                rates.unrecordQuotaSensor(
                    session(words[1]), name(words[2]), Double.parseDouble(words[3]), Long.parseLong(words[4]));
                return null;
            case "strict":  // strict <user> <client> <value> <ms>
                return "" + mutations.recordAndGetThrottleTimeMs(
                    session(words[1]), name(words[2]), Double.parseDouble(words[3]), Long.parseLong(words[4]));
            case "permissive":
                CLOCK.now = Long.parseLong(words[4]);
                var quota = mutations.newPermissiveQuotaFor(session(words[1]), name(words[2]));
                quota.record(Double.parseDouble(words[3]));
                return "" + quota.throttleTime();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static void stop() {
        if (rates != null) {
            rates.initiateShutdown();
            mutations.initiateShutdown();
        }
    }

    private static String name(String word) { return word.equals("-") ? "" : word; }

    private static Session session(String user) throws Exception {
        return new Session(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user), InetAddress.getLoopbackAddress());
    }

    private static Optional<ConfigEntity> user(String word) {
        if (word.equals("-")) return Optional.empty();
        return Optional.of(word.equals("*")
            ? ClientQuotaManager.DEFAULT_USER_ENTITY : new ClientQuotaManager.UserEntity(word));
    }

    private static Optional<ConfigEntity> client(String word) {
        if (word.equals("-")) return Optional.empty();
        return Optional.of(word.equals("*")
            ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID : new ClientQuotaManager.ClientIdEntity(word));
    }
}
