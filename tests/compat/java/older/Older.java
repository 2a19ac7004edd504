// What kafka-clients had until 3.9: not compiled for the column of 4.

import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;

final class Older {
    private Older() {
    }

    public static void add(Map<String, Compat.Scenario> all) {
        all.put("configs-alter-full", Older::alterConfigs);
    }

    @SuppressWarnings("deprecation")
    private static void alterConfigs(Run run) throws Exception {
        String topic = run.topic(1, "retention.bytes", "5000");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config wanted = new Config(List.of(new ConfigEntry("retention.ms", "777000")));
        run.admin.alterConfigs(Map.of(resource, wanted)).all().get();
        Run.eventually("the change", () ->
            "777000".equals(Topics.configs(run, ConfigResource.Type.TOPIC, topic).get("retention.ms").value()));
        Run.equal("-1", Topics.configs(run, ConfigResource.Type.TOPIC, topic).get("retention.bytes").value());
    }
}
