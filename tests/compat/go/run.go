package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	deadline = 60 * time.Second
	pollTime = 100 * time.Millisecond
	baseMs   = 1_700_000_000_000
)

// run is one scenario: names of its own, and clients that are closed afterwards.
type run struct {
	ctx       context.Context
	cancel    context.CancelFunc
	bootstrap string
	name      string
	client    *kgo.Client
	admin     *kadm.Client
	open      []*kgo.Client
}

func newRun(bootstrap, name string) *run {
	ctx, cancel := context.WithTimeout(context.Background(), 3*deadline)
	r := &run{ctx: ctx, cancel: cancel, bootstrap: bootstrap, name: name}
	r.client = r.connect()
	r.admin = kadm.NewClient(r.client)
	return r
}

func (r *run) close() {
	for _, client := range r.open {
		client.Close()
	}
	r.cancel()
}

func (r *run) part(part string) string { return r.name + "." + part }

func (r *run) connect(options ...kgo.Opt) *kgo.Client {
	all := append([]kgo.Opt{
		kgo.SeedBrokers(r.bootstrap),
		kgo.FetchMaxWait(pollTime),
		kgo.FetchMaxPartitionBytes(8 << 20),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, options...)
	client := must(kgo.NewClient(all...))
	r.open = append(r.open, client)
	return client
}

func (r *run) producer(options ...kgo.Opt) *kgo.Client {
	return r.connect(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)...)
}

// reader holds the first partitions of a topic, from their start.
func (r *run) reader(topic string, partitions int, options ...kgo.Opt) *kgo.Client {
	places := map[int32]kgo.Offset{}
	for index := range partitions {
		places[int32(index)] = kgo.NewOffset().AtStart()
	}
	all := []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: places})}
	return r.connect(append(all, options...)...)
}

func (r *run) topic(partitions int, configs ...string) string {
	return r.topicNamed(r.name, partitions, configs...)
}

func (r *run) topicNamed(name string, partitions int, configs ...string) string {
	settings := map[string]*string{}
	for i := 0; i < len(configs); i += 2 {
		settings[configs[i]] = kadm.StringPtr(configs[i+1])
	}
	must(r.admin.CreateTopic(r.ctx, int32(partitions), 1, settings, name))
	eventually("leaders of "+name, func() bool {
		found := must(r.admin.ListEndOffsets(r.ctx, name))
		return found.Error() == nil && len(found[name]) == partitions
	})
	return name
}

func (r *run) send(client *kgo.Client, records ...*kgo.Record) []*kgo.Record {
	results := client.ProduceSync(r.ctx, records...)
	check(results.FirstErr())
	return records
}

// sendOnce uses a producer of its own.
func (r *run) sendOnce(records ...*kgo.Record) []*kgo.Record {
	client := r.producer()
	defer client.Close()
	return r.send(client, records...)
}

// poll gives what is there, after a short wait.
func (r *run) poll(client *kgo.Client) []*kgo.Record {
	ctx, cancel := context.WithTimeout(r.ctx, pollTime)
	defer cancel()
	fetches := client.PollFetches(ctx)
	for _, problem := range fetches.Errors() {
		if !errors.Is(problem.Err, context.DeadlineExceeded) {
			check(problem.Err)
		}
	}
	return fetches.Records()
}

// read gives exactly that many records.
func (r *run) read(client *kgo.Client, count int) []*kgo.Record {
	var found []*kgo.Record
	eventually(fmt.Sprintf("%d records", count), func() bool {
		found = append(found, r.poll(client)...)
		return len(found) >= count
	})
	equal(len(found), count, "records")
	return found
}

func (r *run) readOnce(topic string, partition int32, offset int64, count int) []*kgo.Record {
	place := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}
	client := r.connect(kgo.ConsumePartitions(place))
	defer client.Close()
	return r.read(client, count)
}

func (r *run) broker() int32 { return must(r.admin.ListBrokers(r.ctx))[0].NodeID }

// ---- records

func record(topic string, partition int, key, value any) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: int32(partition), Key: bytesOf(key), Value: bytesOf(value)}
}

func bytesOf(value any) []byte {
	if value == nil {
		return nil
	}
	return []byte(value.(string))
}

func numbered(topic string, count int) []*kgo.Record {
	var records []*kgo.Record
	for i := range count {
		records = append(records, record(topic, 0, fmt.Sprint("key ", i), strings.Repeat(fmt.Sprintf("value %d ", i), 20)))
	}
	return records
}

func checkNumbered(found []*kgo.Record, count int) {
	equal(len(found), count, "records")
	for i, expected := range numbered("", count) {
		equal(found[i].Offset, int64(i), "the offset")
		equal(string(found[i].Key), string(expected.Key), "the key")
		equal(string(found[i].Value), string(expected.Value), "the value")
	}
}

// ---- what must hold

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func equal[T any](found, expected T, what string) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%s: %v, not %v", what, found, expected))
	}
}

func require(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func refused(expected *kerr.Error, err error) {
	if !errors.Is(err, expected) {
		panic(fmt.Sprintf("%s expected, got %v", expected.Message, err))
	}
}

func eventually(what string, holds func() bool) {
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	panic("never: " + what)
}
