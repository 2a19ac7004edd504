// What kafka-clients have since 4.0: not compiled for the column of 3.9.

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;

final class Newer {
    private Newer() {
    }

    public static void add(Map<String, Compat.Scenario> all) {
        all.put("kip848-regex", Newer::pattern);
        all.put("group-configs", Newer::groupConfigs);
        all.put("config-resources", Newer::configResources);
    }

    private static void pattern(Run run) throws Exception {
        Set<String> expected = new TreeSet<>();
        for (String part : List.of("a", "b")) {
            expected.add(run.topicNamed(run.name(part), 1));
        }
        run.topicNamed(run.name("other"), 1);
        Groups.Member member = new Groups.Member(run, run.name(), Groups.CONSUMER);
        String pattern = run.name().replace(".", "\\.") + "\\.[ab]";
        member.consumer.subscribe(new SubscriptionPattern(pattern), member);
        Groups.pollUntil("both topics", () -> member.consumer.assignment().size() == 2, member);
        for (String part : List.of("a", "b", "other")) {
            run.send(List.of(Run.record(run.name(part), null, run.name(part))));
        }
        Groups.pollUntil("a record of each", () -> member.values.size() >= 2, member);
        Run.equal(expected, new TreeSet<>(member.values));
    }

    private static void groupConfigs(Run run) throws Exception {
        Topics.alter(run, ConfigResource.Type.GROUP, run.name(), Topics.set("consumer.session.timeout.ms", "46000"));
        Run.eventually("the change", () -> {
            ConfigEntry entry = Topics.configs(run, ConfigResource.Type.GROUP, run.name()).get("consumer.session.timeout.ms");
            return entry != null && "46000".equals(entry.value());
        });
        Run.refused(InvalidConfigurationException.class, () ->
            Topics.alter(run, ConfigResource.Type.GROUP, run.name(), Topics.set("consumer.session.timeout.ms", "soon")));
    }

    private static Set<ConfigResource> listed(Run run, ConfigResource.Type type) throws Exception {
        return new HashSet<>(run.admin.listConfigResources(Set.of(type), new ListConfigResourcesOptions()).all().get());
    }

    private static void configResources(Run run) throws Exception {
        Topics.alter(run, ConfigResource.Type.GROUP, run.name(), Topics.set("consumer.session.timeout.ms", "46000"));
        Run.eventually("the group in the list", () ->
            listed(run, ConfigResource.Type.GROUP).contains(new ConfigResource(ConfigResource.Type.GROUP, run.name())));
        String topic = run.topic(1);
        Run.require(listed(run, ConfigResource.Type.TOPIC).contains(new ConfigResource(ConfigResource.Type.TOPIC, topic)),
            "the topic is not listed");
    }
}
