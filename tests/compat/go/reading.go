package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Scenarios of the area "Reading": where a consumer may start, stop and wait.
func addReading() {
	scenarios["seek-time"] = seekTime
	scenarios["seek-ends"] = seekEnds
	scenarios["pause-resume"] = pauseResume
	scenarios["tail"] = tail
	scenarios["reset"] = reset
	scenarios["watermarks"] = watermarks
	scenarios["compacted"] = compacted
}

func seek(client *kgo.Client, topic string, offset int64) {
	client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: offset}}})
}

// move takes the partition away and gives it back at another place.
func move(client *kgo.Client, topic string, place kgo.Offset) {
	client.RemoveConsumePartitions(map[string][]int32{topic: {0}})
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: place}})
}

func seekTime(r *run) {
	topic := r.topic(1, "retention.ms", "-1")
	for _, later := range []int64{0, 1, 2, 1000, 1001} {
		r.sendOnce(&kgo.Record{Topic: topic, Value: fmt.Append(nil, "at ", later), Timestamp: time.UnixMilli(baseMs + later)})
	}
	for _, pair := range [][2]int64{{-1, 0}, {1, 1}, {3, 3}, {1001, 4}} {
		found, _ := must(r.admin.ListOffsetsAfterMilli(r.ctx, baseMs+pair[0], topic)).Lookup(topic, 0)
		equal(found.Offset, pair[1], fmt.Sprint("the offset at ", pair[0], " ms"))
	}
	client := r.reader(topic, 1)
	r.read(client, 5)
	move(client, topic, kgo.NewOffset().AfterMilli(baseMs+3))
	found := r.read(client, 2)
	equal(string(found[0].Value), "at 1000", "what follows")
	equal(found[0].Offset, 3, "its offset")
}

func seekEnds(r *run) {
	topic := r.topic(1)
	r.send(r.producer(kgo.ProducerLinger(50*time.Millisecond)), numbered(topic, 100)...)
	client := r.reader(topic, 1)
	checkNumbered(r.read(client, 100), 100)
	for _, start := range []int{57, 3, 99} {
		seek(client, topic, int64(start))
		found := r.read(client, 100-start)
		equal(found[0].Offset, int64(start), "the first offset")
		equal(string(found[0].Key), fmt.Sprint("key ", start), "the first key")
	}
	move(client, topic, kgo.NewOffset().AtStart())
	checkNumbered(r.read(client, 100), 100)
	move(client, topic, kgo.NewOffset().AtEnd())
	var found []*kgo.Record
	eventually("a record after the end", func() bool {
		// Nothing outside shows when the position is set, so there is news until one is seen.
		r.sendOnce(record(topic, 0, nil, "news"))
		found = r.poll(client)
		return len(found) > 0
	})
	equal(string(found[0].Value), "news", "the next record")
	require(found[0].Offset >= 100, fmt.Sprint("its offset is ", found[0].Offset))
}

func pauseResume(r *run) {
	topic := r.topic(2)
	client := r.reader(topic, 2)
	toBoth := func(each int) {
		var records []*kgo.Record
		for i := range 2 * each {
			records = append(records, record(topic, i%2, nil, fmt.Sprint("record ", i)))
		}
		r.sendOnce(records...)
	}
	toBoth(1)
	r.read(client, 2)
	paused := map[string][]int32{topic: {1}}
	client.PauseFetchPartitions(paused)
	toBoth(5)
	for _, found := range r.read(client, 5) {
		equal(found.Partition, 0, "the partition while 1 is paused")
	}
	for range 3 {
		equal(len(r.poll(client)), 0, "records while paused")
	}
	client.ResumeFetchPartitions(paused)
	for i, found := range r.read(client, 5) {
		equal(found.Partition, 1, "the resumed partition")
		equal(found.Offset, int64(i+1), "its offset")
	}
}

func tail(r *run) {
	topic := r.topic(1)
	client := r.reader(topic, 1)
	equal(len(r.poll(client)), 0, "records of an empty topic")
	for i := range 3 {
		r.sendOnce(record(topic, 0, nil, fmt.Sprint(i)))
		equal(string(r.read(client, 1)[0].Value), fmt.Sprint(i), "the news")
	}
}

func reset(r *run) {
	topic := r.topic(1)
	r.sendOnce(numbered(topic, 10)...)
	client := r.reader(topic, 1, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	r.read(client, 10)
	seek(client, topic, 1000)
	checkNumbered(r.read(client, 10), 10)
}

func watermarks(r *run) {
	topic := r.topic(1)
	equal(endOf(r, topic), 0, "the end of the empty partition")
	r.sendOnce(numbered(topic, 7)...)
	start, _ := must(r.admin.ListStartOffsets(r.ctx, topic)).Lookup(topic, 0)
	equal(start.Offset, 0, "the start")
	equal(endOf(r, topic), 7, "the end")
}

func compacted(r *run) {
	topic := r.topic(1, "cleanup.policy", "compact", "segment.ms", "50",
		"min.cleanable.dirty.ratio", "0.001", "delete.retention.ms", "0")
	producer := r.producer()
	refused(kerr.InvalidRecord, producer.ProduceSync(r.ctx, record(topic, 0, nil, "no key")).FirstErr())
	for turn := range 20 {
		for key := range 10 {
			r.send(producer, record(topic, 0, fmt.Sprint("k", key), fmt.Sprint(turn)))
		}
	}
	r.send(producer, record(topic, 0, "k9", nil))
	var rows []string
	eventually("a cleaned log", func() bool {
		// A record rolls the segment before it, which the cleaner may then take.
		r.send(producer, record(topic, 0, "tick", ""))
		rows = everything(r, topic)
		return len(rows) == 9
	})
	for key, row := range rows {
		equal(row, fmt.Sprintf("%d k%d 19", 190+key, key), "the last value of a key")
	}
}

// everything gives offset, key and value of each record but the ticks.
func everything(r *run, topic string) []string {
	var rows []string
	end, next := endOf(r, topic), int64(0)
	client := r.reader(topic, 1)
	defer client.Close()
	eventually("the end", func() bool {
		for _, found := range r.poll(client) {
			next = found.Offset + 1
			if string(found.Key) != "tick" {
				rows = append(rows, fmt.Sprintf("%d %s %s", found.Offset, found.Key, found.Value))
			}
		}
		return next == end
	})
	return rows
}
