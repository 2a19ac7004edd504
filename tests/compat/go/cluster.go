package main

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Scenarios of the area "Cluster".
func addCluster() {
	scenarios["cluster-describe"] = clusterDescribe
	scenarios["log-dirs"] = logDirs
	scenarios["producers"] = producers
	scenarios["elect-leaders"] = electLeaders
	scenarios["reassignments"] = reassignments
	scenarios["quorum"] = quorum
	scenarios["features"] = features
	scenarios["scram"] = scram
	scenarios["quotas"] = quotas
	scenarios["throttle"] = throttle
}

func clusterDescribe(r *run) {
	found := must(r.admin.BrokerMetadata(r.ctx))
	equal(len(found.Cluster), 22, "characters of the id")
	equal(len(found.Brokers), 1, "brokers")
	equal(fmt.Sprintf("%s:%d", found.Brokers[0].Host, found.Brokers[0].Port), r.bootstrap, "address")
	equal(found.Controller, found.Brokers[0].NodeID, "controller")
}

func places(topic string) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	return set
}

func logDirs(r *run) {
	topic := r.topic(1)
	r.send(r.producer(kgo.ProducerBatchCompression(kgo.NoCompression())),
		&kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("x"), 1000)})
	found, _ := must(r.admin.DescribeBrokerLogDirs(r.ctx, r.broker(), places(topic))).LookupPartition(topic, 0)
	require(found.Size > 1000 && found.Size < 2000, fmt.Sprint(found.Size, " bytes for a record of 1000"))
}

func producers(r *run) {
	topic := r.topic(1)
	r.sendOnce(numbered(topic, 3)...)
	found := must(r.admin.DescribeProducers(r.ctx, places(topic))).SortedProducers()
	equal(len(found), 1, "producers")
	require(found[0].ProducerID >= 0, "no producer id")
	equal(found[0].ProducerEpoch, 0, "epoch")
	equal(found[0].LastSequence, 2, "last sequence")
}

func electLeaders(r *run) {
	topic := r.topic(1)
	found := must(r.admin.ElectLeaders(r.ctx, kadm.ElectPreferredReplica, places(topic)))
	refused(kerr.ElectionNotNeeded, found[topic][0].Err)
	equal(r.details(topic).Partitions[0].Leader, r.broker(), "leader")
}

func reassignments(r *run) {
	topic := r.topic(1)
	request := kadm.AlterPartitionAssignmentsReq{}
	request.Assign(topic, 0, []int32{r.broker()})
	check(must(r.admin.AlterPartitionAssignments(r.ctx, request)).Error())
	eventually("none under way", func() bool { return len(must(r.admin.ListPartitionReassignments(r.ctx, nil))) == 0 })
	cancel := kadm.AlterPartitionAssignmentsReq{}
	cancel.CancelAssign(topic, 0)
	refused(kerr.NoReassignmentInProgress, must(r.admin.AlterPartitionAssignments(r.ctx, cancel)).Error())
}

// quorum uses the protocol's own messages: kadm has no call for it.
func quorum(r *run) {
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	request.Topics = append(request.Topics, topic)
	reply := must(request.RequestWith(r.ctx, r.client))
	check(kerr.ErrorForCode(reply.ErrorCode))
	found := reply.Topics[0].Partitions[0]
	check(kerr.ErrorForCode(found.ErrorCode))
	require(found.HighWatermark > 0, fmt.Sprint("high watermark ", found.HighWatermark))
	for _, voter := range found.CurrentVoters {
		if voter.ReplicaID == found.LeaderID {
			return
		}
	}
	panic(fmt.Sprint("the leader ", found.LeaderID, " is no voter"))
}

func finalized(r *run) map[string]int16 {
	levels := map[string]int16{}
	for _, broker := range must(r.admin.ApiVersions(r.ctx)) {
		for _, feature := range broker.Raw().FinalizedFeatures {
			levels[feature.Name] = feature.MaxVersionLevel
		}
	}
	return levels
}

func features(r *run) {
	before := finalized(r)
	require(before["metadata.version"] > 0, "no metadata.version")
	equal(before["group.version"], 1, "group.version")
	same := kadm.FeatureUpdate{Feature: "group.version", MaxVersionLevel: 1, UpgradeType: 1}
	must(r.admin.UpdateFeatures(r.ctx, true, same))
	equal(finalized(r), before, "features")
}

func scram(r *run) {
	wanted := kadm.UpsertSCRAM{User: r.name, Mechanism: kadm.ScramSha256, Iterations: 8192, Password: "a secret"}
	check(must(r.admin.AlterUserSCRAMs(r.ctx, nil, []kadm.UpsertSCRAM{wanted})).Error())
	found := must(r.admin.DescribeUserSCRAMs(r.ctx, r.name))[r.name]
	equal(found.CredInfos, []kadm.CredInfo{{Mechanism: kadm.ScramSha256, Iterations: 8192}}, "credentials")
	gone := []kadm.DeleteSCRAM{{User: r.name, Mechanism: kadm.ScramSha256}}
	check(must(r.admin.AlterUserSCRAMs(r.ctx, gone, nil)).Error())
	refused(kerr.ResourceNotFound, must(r.admin.DescribeUserSCRAMs(r.ctx, r.name))[r.name].Err)
}

func quotas(r *run) {
	entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &r.name}}
	only := []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchName: &r.name, MatchType: kmsg.QuotasMatchTypeExact}}
	alter := func(operation kadm.AlterClientQuotaOp) {
		entry := kadm.AlterClientQuotaEntry{Entity: entity, Ops: []kadm.AlterClientQuotaOp{operation}}
		check(must(r.admin.AlterClientQuotas(r.ctx, []kadm.AlterClientQuotaEntry{entry}))[0].Err)
	}
	alter(kadm.AlterClientQuotaOp{Key: "consumer_byte_rate", Value: 12_345})
	eventually("the quota", func() bool {
		found := must(r.admin.DescribeClientQuotas(r.ctx, true, only))
		return len(found) == 1 && len(found[0].Values) == 1 && found[0].Values[0].Value == 12_345
	})
	alter(kadm.AlterClientQuotaOp{Key: "consumer_byte_rate", Remove: true})
	eventually("no quota", func() bool { return len(must(r.admin.DescribeClientQuotas(r.ctx, true, only))) == 0 })
}

// waits remembers the longest time that the broker told the client to wait.
type waits struct{ longest atomic.Int64 }

func (w *waits) OnBrokerThrottle(_ kgo.BrokerMetadata, told time.Duration, _ bool) {
	w.longest.Store(max(w.longest.Load(), int64(told)))
}

// throttle: the runner gave a quota to the client id that is named as the topic.
func throttle(r *run) {
	topic := r.topic(1)
	told := &waits{}
	client := r.producer(kgo.ClientID(topic), kgo.WithHooks(told), kgo.ProducerBatchMaxBytes(200_000),
		kgo.ProducerLinger(20*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	var records []*kgo.Record
	for range 60 {
		records = append(records, &kgo.Record{Topic: topic, Value: make([]byte, 10_000)})
	}
	r.send(client, records...)
	require(told.longest.Load() > 0, "never told to wait")
	equal(len(r.readOnce(topic, 0, 0, 60)), 60, "records")
}
