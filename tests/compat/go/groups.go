package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	groupPartitions = 4
	each            = 25
)

// Scenarios of the area "Consumer groups".
func addGroups() {
	scenarios["group-eager"] = func(r *run) { shareAndLeave(r, eager(), eager()) }
	scenarios["group-cooperative"] = cooperative
	scenarios["group-static"] = static
	scenarios["commit-metadata"] = commitMetadata
	scenarios["auto-commit"] = autoCommit
	scenarios["kip848"] = nextGeneration
	scenarios["kip848-regex"] = pattern
	scenarios["kip848-migration"] = func(r *run) { shareAndLeave(r, eager(), consumer()) }
}

func eager() []kgo.Opt { return classic(kgo.RangeBalancer()) }

func classic(balancer kgo.GroupBalancer) []kgo.Opt {
	return []kgo.Opt{kgo.Balancers(balancer), kgo.HeartbeatInterval(pollTime), kgo.SessionTimeout(10 * time.Second)}
}

func consumer() []kgo.Opt {
	return []kgo.Opt{kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()}
}

// member is a consumer in a group, and what it was told and given. Callbacks come from the client's own goroutine.
type member struct {
	client     *kgo.Client
	mutex      sync.Mutex
	held       map[int32]bool
	revoked    map[int32]bool
	rebalances int
	values     []string
}

func join(r *run, topic string, options ...kgo.Opt) *member {
	return joinGroup(r, topic, append(options, kgo.ConsumeTopics(topic))...)
}

func joinGroup(r *run, group string, options ...kgo.Opt) *member {
	m := &member{held: map[int32]bool{}, revoked: map[int32]bool{}}
	all := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			m.change(given, func(index int32) { m.held[index] = true })
			m.mutex.Lock()
			m.rebalances++
			m.mutex.Unlock()
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			m.change(taken, func(index int32) { delete(m.held, index); m.revoked[index] = true })
		}),
	}
	m.client = r.connect(append(all, options...)...)
	return m
}

func (m *member) change(partitions map[string][]int32, apply func(int32)) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, indexes := range partitions {
		for _, index := range indexes {
			apply(index)
		}
	}
}

func (m *member) partitions() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Sorted(maps.Keys(m.held))
}

func (m *member) givenUp() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Sorted(maps.Keys(m.revoked))
}

func (m *member) commit(r *run, topic string, offset int64) {
	offsets := map[int32]kgo.EpochOffset{}
	for _, index := range m.partitions() {
		offsets[index] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	m.commitSync(r.ctx, map[string]map[int32]kgo.EpochOffset{topic: offsets})
}

// commitSync checks the answer after the callback, which belongs to a goroutine of the client.
func (m *member) commitSync(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset) {
	var reply *kmsg.OffsetCommitResponse
	var problem error
	m.client.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			reply, problem = answer, err
		})
	check(problem)
	for _, partition := range reply.Topics[0].Partitions {
		equal(partition.ErrorCode, 0, "the commit's error code")
	}
}

// allHeld: every partition by exactly one of them, and no member without.
func allHeld(members ...*member) bool {
	var held []int32
	for _, m := range members {
		mine := m.partitions()
		if len(mine) == 0 {
			return false
		}
		held = append(held, mine...)
	}
	slices.Sort(held)
	return slices.Equal(held, []int32{0, 1, 2, 3})
}

func pollUntil(r *run, what string, holds func() bool, members ...*member) {
	eventually(what, func() bool {
		for _, m := range members {
			for _, found := range r.poll(m.client) {
				m.values = append(m.values, string(found.Value))
			}
		}
		return holds()
	})
}

// fillAndRead sends records to every partition, and the members read each exactly once.
func fillAndRead(r *run, topic, mark string, members ...*member) {
	var records []*kgo.Record
	var expected, found []string
	for i := range groupPartitions * each {
		records = append(records, record(topic, i%groupPartitions, nil, fmt.Sprintf("%s %03d", mark, i)))
		expected = append(expected, fmt.Sprintf("%s %03d", mark, i))
	}
	for _, m := range members {
		m.values = nil
	}
	r.sendOnce(records...)
	pollUntil(r, "every record", func() bool {
		found = nil
		for _, m := range members {
			found = append(found, m.values...)
		}
		return len(found) >= len(expected)
	}, members...)
	slices.Sort(found)
	equal(found, expected, "each record once")
}

func shareAndLeave(r *run, first, second []kgo.Opt) *member {
	topic := r.topic(groupPartitions)
	one := join(r, topic, first...)
	pollUntil(r, "everything for one member", func() bool { return allHeld(one) }, one)
	two := join(r, topic, second...)
	pollUntil(r, "a share for each", func() bool { return allHeld(one, two) }, one, two)
	equal(len(one.partitions()), 2, "partitions of the first")
	fillAndRead(r, topic, "shared", one, two)
	one.commit(r, topic, each)
	two.commit(r, topic, each)
	one.client.Close()
	pollUntil(r, "everything for the other", func() bool { return allHeld(two) }, two)
	for index := range groupPartitions {
		found, _ := must(r.admin.FetchOffsets(r.ctx, topic)).Lookup(topic, int32(index))
		equal(found.At, each, fmt.Sprint("committed on ", index))
	}
	return two
}

func cooperative(r *run) {
	topic := r.topic(groupPartitions)
	one := join(r, topic, classic(kgo.CooperativeStickyBalancer())...)
	pollUntil(r, "everything for one member", func() bool { return allHeld(one) }, one)
	two := join(r, topic, classic(kgo.CooperativeStickyBalancer())...)
	pollUntil(r, "a share for each", func() bool { return allHeld(one, two) }, one, two)
	equal(one.givenUp(), two.partitions(), "what the first member gave up")
	fillAndRead(r, topic, "shared", one, two)
}

func static(r *run) {
	topic := r.topic(groupPartitions)
	one := join(r, topic, append(eager(), kgo.InstanceID("one"))...)
	two := join(r, topic, append(eager(), kgo.InstanceID("two"))...)
	pollUntil(r, "a share for each", func() bool { return allHeld(one, two) }, one, two)
	fillAndRead(r, topic, "before", one, two)
	one.commit(r, topic, each)
	two.commit(r, topic, each)
	held, rebalances := two.partitions(), one.rebalances
	two.client.Close()
	again := join(r, topic, append(eager(), kgo.InstanceID("two"))...)
	pollUntil(r, "the share again", func() bool { return allHeld(one, again) }, one, again)
	equal(again.partitions(), held, "partitions after the restart")
	fillAndRead(r, topic, "after", one, again)
	equal(one.rebalances, rebalances, "rebalances of the other member")
}

func commitMetadata(r *run) {
	topic := r.topic(1)
	r.sendOnce(numbered(topic, 10)...)
	one := join(r, topic, eager()...)
	pollUntil(r, "ten records", func() bool { return len(one.values) == 10 }, one)
	ctx := kgo.PreCommitFnContext(r.ctx, func(request *kmsg.OffsetCommitRequest) error {
		request.Topics[0].Partitions[0].Metadata = kmsg.StringPtr("see page 7")
		return nil
	})
	one.commitSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 4}}})
	found, _ := must(r.admin.FetchOffsets(r.ctx, topic)).Lookup(topic, 0)
	equal(found.At, 4, "committed")
	equal(found.Metadata, "see page 7", "metadata")
	one.client.Close()
	two := join(r, topic, eager()...)
	pollUntil(r, "what was not committed", func() bool { return len(two.values) >= 6 }, two)
	equal(two.values[0], string(numbered(topic, 5)[4].Value), "the first value")
	equal(len(two.values), 6, "records")
}

func autoCommit(r *run) {
	topic := r.topic(1)
	r.sendOnce(numbered(topic, 10)...)
	client := r.connect(append(eager(), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic))...)
	r.read(client, 10)
	r.poll(client) // the next poll says that what the last one gave is done with
	client.Close()
	found, _ := must(r.admin.FetchOffsets(r.ctx, topic)).Lookup(topic, 0)
	equal(found.At, 10, "committed")
}

func nextGeneration(r *run) {
	shareAndLeave(r, consumer(), consumer()).client.Close()
	r.sendOnce(record(r.name, 0, nil, "later"))
	three := join(r, r.name, consumer()...)
	pollUntil(r, "what is new", func() bool { return len(three.values) > 0 }, three)
	equal(three.values, []string{"later"}, "what a new member reads")
	described := must(r.admin.DescribeConsumerGroups(r.ctx, r.name))[r.name]
	check(described.Err)
	equal(len(described.Members), 1, "members of the described group")
}

func pattern(r *run) {
	var expected []string
	for _, part := range []string{"a", "b"} {
		expected = append(expected, r.topicNamed(r.part(part), 1))
	}
	r.topicNamed(r.part("other"), 1)
	options := append(consumer(), kgo.ConsumeRegex(), kgo.ConsumeTopics(regexp.QuoteMeta(r.name)+`\.[ab]`))
	m := joinGroup(r, r.name, options...)
	for _, part := range []string{"a", "b", "other"} {
		r.sendOnce(record(r.part(part), 0, nil, r.part(part)))
	}
	pollUntil(r, "a record of each", func() bool { return len(m.values) >= 2 }, m)
	slices.Sort(m.values)
	equal(m.values, expected, "records")
}
