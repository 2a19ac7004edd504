// Apache Kafka's Java clients as a column of the compatibility card: every scenario in one JVM.
//
// Usage: java Compat BOOTSTRAP PREFIX FEATURE... Prints one JSON line for each feature, in order.

import java.lang.reflect.Method;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.admin.Admin;

public final class Compat {
    interface Scenario {
        void run(Run run) throws Exception;
    }

    private Compat() {
    }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        Map<String, Scenario> scenarios = scenarios();
        Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", "30000"));
        for (int i = 2; i < arguments.length; i++) {
            String problem = attempt(new Run(bootstrap, arguments[1], arguments[i], admin), scenarios.get(arguments[i]));
            System.out.println("{\"scenario\": " + quoted(arguments[i])
                + ", \"result\": " + quoted(problem.isEmpty() ? "ok" : "FAIL") + ", \"detail\": " + quoted(problem) + "}");
            System.out.flush();
        }
        admin.close(Duration.ZERO);
        // Threads of clients that a failed scenario left open do not hold the program.
        System.exit(0);
    }

    private static Map<String, Scenario> scenarios() throws Exception {
        Map<String, Scenario> all = new HashMap<>();
        Records.add(all);
        Reading.add(all);
        Groups.add(all);
        Topics.add(all);
        Offsets.add(all);
        Cluster.add(all);
        // What only one generation of the clients has is compiled with it alone.
        for (String name : List.of("Newer", "Older")) {
            try {
                Method add = Class.forName(name).getMethod("add", Map.class);
                add.setAccessible(true);
                add.invoke(null, all);
            } catch (ClassNotFoundException otherGeneration) {
                continue;
            }
        }
        return all;
    }

    private static String attempt(Run run, Scenario scenario) {
        if (scenario == null) {
            return "the program has no such scenario";
        }
        try {
            scenario.run(run);
            return "";
        } catch (Throwable error) {
            StackTraceElement place = null;
            for (StackTraceElement element : error.getStackTrace()) {
                if (element.getFileName() != null && !element.getClassName().contains(".") && place == null
                        && !element.getClassName().equals("Run")) {
                    place = element;
                }
            }
            return error + " at " + place;
        } finally {
            run.close();
        }
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else {
                out.append(c < ' ' ? ' ' : c);
            }
        }
        return out.append('"').toString();
    }
}
