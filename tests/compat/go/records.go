package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Scenarios of the area "Records": what goes in comes out.
func addRecords() {
	codecs := map[string]kgo.CompressionCodec{
		"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		scenarios[name] = func(r *run) { exchange(r, 500, kgo.ProducerBatchCompression(codec)) }
	}
	scenarios["round-trip"] = func(r *run) { exchange(r, 500) }
	scenarios["idempotent"] = func(r *run) { exchange(r, 1000, kgo.ProducerBatchMaxBytes(2000)) }
	scenarios["batching"] = func(r *run) {
		exchange(r, 2000, kgo.ProducerLinger(50*time.Millisecond), kgo.ProducerBatchMaxBytes(100_000))
	}
	scenarios["acks"] = acks
	scenarios["headers"] = func(r *run) {
		headers(r, header("trace", "abc"), header("repeated", "1"), header("repeated", "2"), header("empty", ""))
	}
	scenarios["null-headers"] = func(r *run) {
		headers(r, kgo.RecordHeader{Key: "nothing"}, header("something", "x"))
	}
	scenarios["nulls"] = nulls
	scenarios["large"] = large
	scenarios["too-large"] = tooLarge
	scenarios["partitions"] = partitions
	scenarios["timestamps"] = timestamps
	scenarios["auto-create"] = autoCreate
}

func exchange(r *run, count int, options ...kgo.Opt) {
	topic := r.topic(1)
	for i, answered := range r.send(r.producer(options...), numbered(topic, count)...) {
		equal(answered.Offset, int64(i), "the offset told to the producer")
	}
	checkNumbered(r.readOnce(topic, 0, 0, count), count)
}

func acks(r *run) {
	for name, level := range map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()} {
		topic := r.topicNamed(r.part(name), 1)
		r.send(r.producer(kgo.RequiredAcks(level), kgo.DisableIdempotentWrite()), numbered(topic, 10)...)
		checkNumbered(r.readOnce(topic, 0, 0, 10), 10)
	}
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

func headers(r *run, wanted ...kgo.RecordHeader) {
	topic := r.topic(1)
	sent := record(topic, 0, "k", "v")
	sent.Headers = wanted
	r.sendOnce(sent)
	found := r.readOnce(topic, 0, 0, 1)[0].Headers
	equal(len(found), len(wanted), "headers")
	for i := range wanted {
		equal(found[i].Key, wanted[i].Key, "its name")
		equal(found[i].Value == nil, wanted[i].Value == nil, "its being null")
		require(bytes.Equal(found[i].Value, wanted[i].Value), "the value of "+wanted[i].Key)
	}
}

func nulls(r *run) {
	topic := r.topic(1)
	pairs := [][2]any{{nil, "v"}, {"k", nil}, {"", "v"}, {"k", ""}}
	var records []*kgo.Record
	for _, pair := range pairs {
		records = append(records, record(topic, 0, pair[0], pair[1]))
	}
	r.sendOnce(records...)
	for i, found := range r.readOnce(topic, 0, 0, len(pairs)) {
		equal(found.Key, bytesOf(pairs[i][0]), "a key")
		equal(found.Value, bytesOf(pairs[i][1]), "a value")
	}
}

func large(r *run) {
	topic := r.topic(1, "max.message.bytes", "3000000")
	var records []*kgo.Record
	for _, letter := range []byte("ABC") {
		records = append(records, &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte{letter}, 1<<20)})
	}
	r.send(r.producer(kgo.ProducerBatchMaxBytes(3_000_000)), records...)
	for i, found := range r.readOnce(topic, 0, 0, 3) {
		require(bytes.Equal(found.Value, records[i].Value), fmt.Sprint("value ", i, " changed"))
	}
}

func tooLarge(r *run) {
	topic := r.topic(1, "max.message.bytes", "100000")
	// Compressed it would fit.
	client := r.producer(kgo.ProducerBatchMaxBytes(3_000_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	big := &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("x"), 200_000)}
	refused(kerr.MessageTooLarge, client.ProduceSync(r.ctx, big).FirstErr())
	equal(endOf(r, topic), 0, "the end of the log")
}

func endOf(r *run, topic string) int64 {
	found, _ := must(r.admin.ListEndOffsets(r.ctx, topic)).Lookup(topic, 0)
	return found.Offset
}

func partitions(r *run) {
	topic := r.topic(100)
	equal(len(must(r.admin.ListTopics(r.ctx, topic))[topic].Partitions), 100, "partitions")
	var records []*kgo.Record
	for i := range 100 {
		records = append(records, record(topic, i, nil, fmt.Sprint("for ", i)))
	}
	r.sendOnce(records...)
	for _, found := range r.read(r.reader(topic, 100), 100) {
		equal(string(found.Value), fmt.Sprint("for ", found.Partition), "the record of its partition")
	}
}

func timestamps(r *run) {
	kept := r.topicNamed(r.part("create"), 1, "retention.ms", "-1")
	stamped := r.topicNamed(r.part("append"), 1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().UnixMilli()
	for _, topic := range []string{kept, stamped} {
		r.sendOnce(&kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.UnixMilli(baseMs)})
	}
	first := r.readOnce(kept, 0, 0, 1)[0]
	equal(first.Timestamp.UnixMilli(), baseMs, "create time")
	equal(first.Attrs.TimestampType(), 0, "its kind")
	second := r.readOnce(stamped, 0, 0, 1)[0]
	require(second.Timestamp.UnixMilli() >= before, "append time before the record was sent")
	equal(second.Attrs.TimestampType(), 1, "its kind")
}

func autoCreate(r *run) {
	client := r.connect(kgo.AllowAutoTopicCreation())
	equal(r.send(client, &kgo.Record{Topic: r.name, Value: []byte("first")})[0].Offset, 0, "its offset")
	equal(string(r.readOnce(r.name, 0, 0, 1)[0].Value), "first", "its value")
	var details kadm.TopicDetails = must(r.admin.ListTopics(r.ctx, r.name))
	equal(len(details[r.name].Partitions), 1, "partitions")
}
