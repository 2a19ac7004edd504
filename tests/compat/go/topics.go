package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Scenarios of the area "Topics and configs".
func addTopics() {
	scenarios["topic-create"] = topicCreate
	scenarios["topic-describe"] = topicDescribe
	scenarios["topic-delete"] = topicDelete
	scenarios["partitions-create"] = partitionsCreate
	scenarios["configs-describe"] = configsDescribe
	scenarios["configs-alter"] = configsAlter
	scenarios["configs-alter-full"] = configsAlterFull
	scenarios["group-configs"] = groupConfigs
	scenarios["config-resources"] = configResources
	scenarios["records-delete"] = recordsDelete
	scenarios["offsets-list"] = offsetsList
}

func (r *run) details(topic string) kadm.TopicDetail {
	return must(r.admin.ListTopics(r.ctx, topic))[topic]
}

func (r *run) configs(topic string) map[string]*kadm.Config {
	found := must(must(r.admin.DescribeTopicConfigs(r.ctx, topic)).On(topic, nil))
	check(found.Err)
	configs := map[string]*kadm.Config{}
	for i, config := range found.Configs {
		configs[config.Key] = &found.Configs[i]
	}
	return configs
}

func topicCreate(r *run) {
	topic := r.topic(3, "retention.ms", "777000")
	equal(len(r.details(topic).Partitions), 3, "partitions")
	equal(r.configs(topic)["retention.ms"].MaybeValue(), "777000", "retention.ms")
	_, err := r.admin.CreateTopic(r.ctx, 1, 1, nil, topic)
	refused(kerr.TopicAlreadyExists, err)
	_, err = r.admin.CreateTopic(r.ctx, 1, 1, map[string]*string{"retention.ms": kadm.StringPtr("soon")}, r.part("bad"))
	refused(kerr.InvalidConfig, err)
	must(r.admin.ValidateCreateTopics(r.ctx, 3, 1, nil, r.part("wish")))
	require(!must(r.admin.ListTopics(r.ctx)).Has(r.part("wish")), "created though only validated")
}

func topicDescribe(r *run) {
	topic := r.topic(5)
	require(must(r.admin.ListTopics(r.ctx)).Has(topic), "not listed")
	for _, partition := range r.details(topic).Partitions {
		equal(partition.Leader, r.broker(), "leader")
		equal(partition.ISR, []int32{r.broker()}, "in-sync replicas")
	}
	refused(kerr.UnknownTopicOrPartition, r.details(r.part("nothing")).Err)
}

func topicDelete(r *run) {
	topic := r.topic(1)
	must(r.admin.DeleteTopic(r.ctx, topic))
	eventually("no topic", func() bool { return !must(r.admin.ListTopics(r.ctx)).Has(topic) })
	_, err := r.admin.DeleteTopic(r.ctx, topic)
	refused(kerr.UnknownTopicOrPartition, err)
}

func partitionsCreate(r *run) {
	topic := r.topic(2)
	check(must(r.admin.UpdatePartitions(r.ctx, 5, topic)).Error())
	eventually("five partitions", func() bool { return len(r.details(topic).Partitions) == 5 })
	refused(kerr.InvalidPartitions, must(r.admin.UpdatePartitions(r.ctx, 3, topic)).Error())
	r.sendOnce(record(topic, 4, nil, "new"))
	equal(string(r.readOnce(topic, 4, 0, 1)[0].Value), "new", "the record of a new partition")
}

func configsDescribe(r *run) {
	found := r.configs(r.topic(1, "retention.bytes", "1000"))
	equal(found["retention.bytes"].MaybeValue(), "1000", "what was set")
	equal(found["retention.bytes"].Source, kmsg.ConfigSourceDynamicTopicConfig, "its source")
	equal(found["segment.bytes"].MaybeValue(), "1073741824", "what was not")
	equal(found["segment.bytes"].Source, kmsg.ConfigSourceDefaultConfig, "its source")
	for _, config := range must(r.admin.DescribeBrokerConfigs(r.ctx, r.broker()))[0].Configs {
		if config.Key == "num.partitions" {
			equal(config.MaybeValue(), "1", "the broker's num.partitions")
			return
		}
	}
	panic("the broker has no num.partitions")
}

func set(key, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: kadm.StringPtr(value)}
}

func configsAlter(r *run) {
	topic := r.topic(1, "retention.bytes", "5000")
	changes := []kadm.AlterConfig{set("retention.ms", "777000"), {Op: kadm.DeleteConfig, Name: "retention.bytes"}}
	check(must(r.admin.AlterTopicConfigs(r.ctx, changes, topic))[0].Err)
	eventually("both changes", func() bool {
		found := r.configs(topic)
		return found["retention.ms"].MaybeValue() == "777000" && found["retention.bytes"].MaybeValue() == "-1"
	})
	bad := []kadm.AlterConfig{set("retention.ms", "soon")}
	refused(kerr.InvalidConfig, must(r.admin.AlterTopicConfigs(r.ctx, bad, topic))[0].Err)
}

func configsAlterFull(r *run) {
	topic := r.topic(1, "retention.bytes", "5000")
	check(must(r.admin.AlterTopicConfigsState(r.ctx, []kadm.AlterConfig{set("retention.ms", "777000")}, topic))[0].Err)
	eventually("the change", func() bool { return r.configs(topic)["retention.ms"].MaybeValue() == "777000" })
	equal(r.configs(topic)["retention.bytes"].MaybeValue(), "-1", "what was not named")
}

// alterGroup uses the protocol's own messages: kadm has no call for a group's configs.
func alterGroup(r *run, value string) error {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, r.name
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "consumer.session.timeout.ms", kmsg.StringPtr(value)
	resource.Configs = append(resource.Configs, config)
	request.Resources = append(request.Resources, resource)
	return kerr.ErrorForCode(must(request.RequestWith(r.ctx, r.client)).Resources[0].ErrorCode)
}

func groupConfigs(r *run) {
	check(alterGroup(r, "46000"))
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, r.name
	request.Resources = append(request.Resources, resource)
	eventually("the change", func() bool {
		for _, config := range must(request.RequestWith(r.ctx, r.client)).Resources[0].Configs {
			if config.Name == "consumer.session.timeout.ms" {
				return *config.Value == "46000"
			}
		}
		return false
	})
	refused(kerr.InvalidConfig, alterGroup(r, "soon"))
}

func configResources(r *run) {
	check(alterGroup(r, "46000"))
	listed := func(name string) bool {
		for _, resource := range must(r.admin.ListConfigResources(r.ctx)).Resources {
			if resource.Name == name {
				return true
			}
		}
		return false
	}
	eventually("the group in the list", func() bool { return listed(r.name) })
	require(listed(r.topicNamed(r.part("topic"), 1)), "the topic is not listed")
}

func recordsDelete(r *run) {
	topic := r.topic(1)
	r.sendOnce(numbered(topic, 10)...)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 4})
	answer, _ := must(r.admin.DeleteRecords(r.ctx, offsets)).Lookup(topic, 0)
	check(answer.Err)
	equal(answer.LowWatermark, 4, "the low watermark of the answer")
	equal(r.readOnce(topic, 0, 4, 6)[0].Offset, 4, "the first record that is left")
	start, _ := must(r.admin.ListStartOffsets(r.ctx, topic)).Lookup(topic, 0)
	equal(start.Offset, 4, "the start")
}

func offsetsList(r *run) {
	topic := r.topic(1, "retention.ms", "-1")
	for _, later := range []int64{0, 500, 200} {
		r.sendOnce(&kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: time.UnixMilli(baseMs + later)})
	}
	asked := map[string]int64{}
	for name, found := range map[string]kadm.ListedOffsets{
		"earliest": must(r.admin.ListStartOffsets(r.ctx, topic)),
		"latest":   must(r.admin.ListEndOffsets(r.ctx, topic)),
		"largest":  must(r.admin.ListMaxTimestampOffsets(r.ctx, topic)),
		"by time":  must(r.admin.ListOffsetsAfterMilli(r.ctx, baseMs+100, topic)),
	} {
		offset, _ := found.Lookup(topic, 0)
		asked[name] = offset.Offset
	}
	equal(asked, map[string]int64{"earliest": 0, "latest": 3, "largest": 1, "by time": 1}, "offsets")
}
