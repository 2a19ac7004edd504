package main

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Scenarios of the area "Groups and offsets, administered".
func addOffsets() {
	scenarios["groups-describe"] = groupsDescribe
	scenarios["group-offsets-list"] = func(r *run) { equal(committed(r, committedGroup(r)), map[int32]int64{0: 5, 1: 5}, "offsets") }
	scenarios["group-offsets-alter"] = groupOffsetsAlter
	scenarios["group-offsets-delete"] = groupOffsetsDelete
	scenarios["groups-delete"] = groupsDelete
}

func groupsDescribe(r *run) {
	topic := r.topic(2)
	m := join(r, topic, append(eager(), kgo.ClientID("who"))...)
	pollUntil(r, "an assignment", func() bool { return len(m.partitions()) == 2 }, m)
	require(slices.Contains(must(r.admin.ListGroups(r.ctx)).Groups(), topic), "not listed")
	found := must(r.admin.DescribeGroups(r.ctx, topic))[topic]
	equal(found.State, "Stable", "state")
	equal(found.Protocol, "range", "assignor")
	equal(len(found.Members), 1, "members")
	equal(found.Members[0].ClientID, "who", "client id")
	equal(len(found.AssignedPartitions()[topic]), 2, "assigned partitions")
	m.client.Close()
	eventually("an empty group", func() bool { return must(r.admin.DescribeGroups(r.ctx, topic))[topic].State == "Empty" })
}

// committedGroup has no members and has committed 5 on each of two partitions; it is named as its topic.
func committedGroup(r *run) string {
	topic := r.topic(2)
	for i := range 16 {
		r.sendOnce(record(topic, i%2, nil, fmt.Sprint(i/2)))
	}
	m := join(r, topic, eager()...)
	pollUntil(r, "an assignment", func() bool { return len(m.partitions()) == 2 }, m)
	m.commit(r, topic, 5)
	m.client.Close()
	return topic
}

func committed(r *run, group string) map[int32]int64 {
	offsets := map[int32]int64{}
	for index, found := range must(r.admin.FetchOffsets(r.ctx, group))[group] {
		check(found.Err)
		offsets[index] = found.At
	}
	return offsets
}

func groupOffsetsAlter(r *run) {
	group := committedGroup(r)
	wanted := kadm.Offsets{}
	wanted.Add(kadm.Offset{Topic: group, Partition: 0, At: 8, LeaderEpoch: -1})
	wanted.Add(kadm.Offset{Topic: group, Partition: 1, At: 2, LeaderEpoch: -1})
	check(r.admin.CommitAllOffsets(r.ctx, group, wanted))
	equal(committed(r, group), map[int32]int64{0: 8, 1: 2}, "offsets")
	m := join(r, group, eager()...)
	pollUntil(r, "what is left", func() bool { return len(m.values) >= 6 }, m)
	equal(m.values, []string{"2", "3", "4", "5", "6", "7"}, "what is read")
}

func groupOffsetsDelete(r *run) {
	group := committedGroup(r)
	places := kadm.TopicsSet{}
	places.Add(group, 0)
	check(must(r.admin.DeleteOffsets(r.ctx, group, places)).Error())
	equal(committed(r, group), map[int32]int64{1: 5}, "offsets")
}

func groupsDelete(r *run) {
	group := committedGroup(r)
	m := join(r, group, eager()...)
	pollUntil(r, "an assignment", func() bool { return len(m.partitions()) == 2 }, m)
	_, err := r.admin.DeleteGroup(r.ctx, group)
	refused(kerr.NonEmptyGroup, err)
	m.client.Close()
	must(r.admin.DeleteGroup(r.ctx, group))
	require(!slices.Contains(must(r.admin.ListGroups(r.ctx)).Groups(), group), "still listed")
	_, err = r.admin.DeleteGroup(r.ctx, group)
	refused(kerr.GroupIDNotFound, err)
}
