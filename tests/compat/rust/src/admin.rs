// Scenarios of the areas "Topics and configs" and "Cluster".

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;

use rdkafka::admin::{AdminOptions, AlterConfig, ConfigResource, ConfigSource, NewPartitions, ResourceSpecifier};
use rdkafka::client::ClientContext;
use rdkafka::consumer::{Consumer, DefaultConsumerContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;
use rdkafka::producer::FutureProducer;
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::Offset;

use crate::run::{done, eventually, numbered, places, refusal, sent, take, Run, Sent, CALL};
use crate::Scenarios;

pub fn add(all: &mut Scenarios) {
    all.insert("topic-create", Box::new(topic_create));
    all.insert("topic-describe", Box::new(topic_describe));
    all.insert("topic-delete", Box::new(topic_delete));
    all.insert("partitions-create", Box::new(partitions_create));
    all.insert("configs-describe", Box::new(configs_describe));
    all.insert("configs-alter-full", Box::new(configs_alter_full));
    all.insert("records-delete", Box::new(records_delete));
    all.insert("cluster-describe", Box::new(cluster_describe));
    all.insert("throttle", Box::new(throttle));
}

/// Each partition's leader, or Kafka's error. By a consumer, because other clients of librdkafka's ask for creation.
fn leaders(run: &Run, topic: &str) -> Result<Vec<i32>, RDKafkaErrorCode> {
    let consumer = run.consumer(DefaultConsumerContext, &[]);
    let found = consumer.fetch_metadata(Some(topic), CALL).expect("metadata");
    match found.topics()[0].error() {
        Some(error) => Err(error.into()),
        None => Ok(found.topics()[0].partitions().iter().map(|one| one.leader()).collect()),
    }
}

fn broker(run: &Run) -> i32 {
    run.admin.inner().fetch_metadata(None, CALL).expect("metadata").brokers()[0].id()
}

fn configs(run: &Run, resource: ResourceSpecifier<'_>) -> ConfigResource {
    let found = run.wait(run.admin.describe_configs(&[resource], &run.options)).expect("an answer");
    found.into_iter().next().expect("a resource").expect("configs")
}

fn value(run: &Run, topic: &str, name: &str) -> Option<String> {
    configs(run, ResourceSpecifier::Topic(topic)).get(name).and_then(|entry| entry.value.clone())
}

fn topic_create(run: &Run) {
    let topic = run.topic(3, &[("retention.ms", "777000")]);
    assert_eq!(leaders(run, &topic).expect("partitions").len(), 3, "partitions");
    assert_eq!(value(run, &topic, "retention.ms").as_deref(), Some("777000"), "retention.ms");
    let again = run.create(&topic, 1, &[], &run.options);
    assert_eq!(refusal(again), RDKafkaErrorCode::TopicAlreadyExists, "the refusal");
    let bad = run.create(&run.part("bad"), 1, &[("retention.ms", "soon")], &run.options);
    assert_eq!(refusal(bad), RDKafkaErrorCode::InvalidConfig, "the refusal");
    let validate = AdminOptions::new().request_timeout(Some(CALL)).validate_only(true);
    done(run.create(&run.part("wish"), 3, &[], &validate));
    assert!(!run.topic_names().contains(&run.part("wish")), "created though only validated");
}

fn topic_describe(run: &Run) {
    let topic = run.topic(5, &[]);
    assert!(run.topic_names().contains(&topic), "not listed");
    assert_eq!(leaders(run, &topic), Ok(vec![broker(run); 5]), "leaders");
    let unknown = leaders(run, &run.part("nothing"));
    assert_eq!(unknown, Err(RDKafkaErrorCode::UnknownTopicOrPartition), "an unknown topic");
}

fn topic_delete(run: &Run) {
    let topic = run.topic(1, &[]);
    let delete = || run.wait(run.admin.delete_topics(&[&topic], &run.options)).expect("an answer");
    done(delete());
    eventually("no topic", || !run.topic_names().contains(&topic));
    assert_eq!(refusal(delete()), RDKafkaErrorCode::UnknownTopicOrPartition, "the refusal");
}

fn partitions_create(run: &Run) {
    let topic = run.topic(2, &[]);
    let grow = |count| {
        let wanted = NewPartitions::new(&topic, count);
        run.wait(run.admin.create_partitions(&[wanted], &run.options)).expect("an answer")
    };
    done(grow(5));
    eventually("five partitions", || leaders(run, &topic).is_ok_and(|found| found.len() == 5));
    assert_eq!(refusal(grow(3)), RDKafkaErrorCode::InvalidPartitions, "the refusal");
    run.send(&topic, &[sent(None, Some("new"), 4)]);
    let found = take(&run.reader(&topic, 5), 1);
    assert_eq!((found[0].partition(), found[0].payload()), (4, Some(&b"new"[..])), "the record of a new partition");
}

fn configs_describe(run: &Run) {
    let topic = run.topic(1, &[("retention.bytes", "1000")]);
    let found = configs(run, ResourceSpecifier::Topic(&topic));
    let set = found.get("retention.bytes").expect("retention.bytes");
    assert_eq!((set.value.as_deref(), &set.source), (Some("1000"), &ConfigSource::DynamicTopic), "what was set");
    let other = found.get("segment.bytes").expect("segment.bytes");
    assert_eq!((other.value.as_deref(), other.is_default), (Some("1073741824"), true), "what was not");
    let broker = configs(run, ResourceSpecifier::Broker(broker(run)));
    let partitions = broker.get("num.partitions").expect("num.partitions");
    assert_eq!(partitions.value.as_deref(), Some("1"), "the broker's num.partitions");
}

fn configs_alter_full(run: &Run) {
    let topic = run.topic(1, &[("retention.bytes", "5000")]);
    let wanted = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("retention.ms", "777000");
    let answers = run.wait(run.admin.alter_configs(&[wanted], &run.options)).expect("an answer");
    assert!(answers[0].is_ok(), "{answers:?}");
    eventually("the change", || value(run, &topic, "retention.ms").as_deref() == Some("777000"));
    assert_eq!(value(run, &topic, "retention.bytes").as_deref(), Some("-1"), "what was not named");
}

fn records_delete(run: &Run) {
    let topic = run.topic(1, &[]);
    run.send(&topic, &numbered(10));
    let before = places(&topic, [0], Offset::Offset(4));
    let answer = run.wait(run.admin.delete_records(&before, &run.options)).expect("an answer");
    assert_eq!(answer.elements()[0].offset(), Offset::Offset(4), "the low watermark of the answer");
    assert_eq!(run.watermarks(&topic), (4, 10), "watermarks");
    assert_eq!(run.read(&topic, 6)[0].offset(), 4, "the first record that is left");
}

fn cluster_describe(run: &Run) {
    let found = run.admin.inner().fetch_metadata(None, CALL).expect("metadata");
    let addresses: Vec<_> = found.brokers().iter().map(|one| format!("{}:{}", one.host(), one.port())).collect();
    assert_eq!(addresses, [run.bootstrap.clone()], "addresses");
    assert_eq!(run.admin.inner().fetch_cluster_id(CALL).expect("an id").len(), 22, "characters of the id");
}

/// The longest time that the broker told the client to wait, from librdkafka's statistics.
#[derive(Clone, Default)]
struct Waits(Arc<AtomicI64>);

impl ClientContext for Waits {
    fn stats(&self, statistics: Statistics) {
        for broker in statistics.brokers.values() {
            let told = broker.throttle.as_ref().map_or(0, |window| window.max);
            self.0.fetch_max(told, Ordering::Relaxed);
        }
    }
}

/// The runner gave a quota to the client id that is named as the topic.
fn throttle(run: &Run) {
    let topic = run.topic(1, &[]);
    let waits = Waits::default();
    let settings = [("client.id", topic.as_str()), ("statistics.interval.ms", "50"), ("batch.size", "200000")];
    let producer: FutureProducer<Waits> = run.config(&settings).create_with_context(waits.clone()).expect("a producer");
    let record = Sent { value: Some(vec![b'x'; 10_000]), ..Sent::default() };
    run.send_with(&producer, &topic, &vec![record; 60]).expect("deliveries");
    eventually("a time to wait", || waits.0.load(Ordering::Relaxed) > 0);
    run.read(&topic, 60);
}
