// One scenario: names of its own, clients with the settings that it asks for, and what must hold.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

pub const BASE_MS: i64 = 1_700_000_000_000;
pub const CALL: Duration = Duration::from_secs(30);
pub const POLL: Duration = Duration::from_millis(50);
const DEADLINE: Duration = Duration::from_secs(60);

/// What a producer is asked to send.
#[derive(Clone, Default)]
pub struct Sent {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub partition: i32,
    pub timestamp: Option<i64>,
    pub headers: Option<OwnedHeaders>,
}

pub fn sent(key: Option<&str>, value: Option<&str>, partition: i32) -> Sent {
    let bytes = |text: &str| text.as_bytes().to_vec();
    Sent { key: key.map(bytes), value: value.map(bytes), partition, ..Sent::default() }
}

pub fn numbered(count: usize) -> Vec<Sent> {
    (0..count).map(|i| sent(Some(&format!("key {i}")), Some(&format!("value {i} ").repeat(20)), 0)).collect()
}

pub fn check_numbered(found: &[OwnedMessage], count: usize) {
    assert_eq!(found.len(), count, "records");
    for (i, (one, expected)) in found.iter().zip(numbered(count)).enumerate() {
        assert_eq!(one.offset(), i as i64, "the offset");
        assert_eq!(one.key(), expected.key.as_deref(), "the key of {i}");
        assert_eq!(one.payload(), expected.value.as_deref(), "the value of {i}");
    }
}

pub fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|found| String::from_utf8_lossy(found).into_owned())
}

pub fn header_values(message: &OwnedMessage) -> Vec<(String, Option<Vec<u8>>)> {
    let headers = message.headers().expect("headers");
    headers.iter().map(|one| (one.key.to_string(), one.value.map(<[u8]>::to_vec))).collect()
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while Instant::now() < end {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}

/// Kafka's code of what a call about one thing was refused with.
pub fn refusal<T>(results: Vec<Result<T, (String, RDKafkaErrorCode)>>) -> RDKafkaErrorCode {
    match results.into_iter().next().expect("an answer") {
        Ok(_) => panic!("not refused"),
        Err((_, code)) => code,
    }
}

pub fn done<T>(results: Vec<Result<T, (String, RDKafkaErrorCode)>>) -> T {
    results.into_iter().next().expect("an answer").unwrap_or_else(|(name, code)| panic!("{name}: {code}"))
}

pub struct Run {
    pub bootstrap: String,
    pub name: String,
    pub admin: AdminClient<DefaultClientContext>,
    pub options: AdminOptions,
    runtime: tokio::runtime::Runtime,
}

impl Run {
    pub fn new(bootstrap: &str, name: String) -> Run {
        Run {
            bootstrap: bootstrap.into(),
            name,
            admin: config(bootstrap, &[]).create().expect("an admin client"),
            options: AdminOptions::new().request_timeout(Some(CALL)),
            runtime: tokio::runtime::Builder::new_current_thread().build().expect("a runtime"),
        }
    }

    pub fn part(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    pub fn wait<F: std::future::Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub fn config(&self, settings: &[(&str, &str)]) -> ClientConfig {
        config(&self.bootstrap, settings)
    }

    // ---- topics

    pub fn topic(&self, partitions: i32, configs: &[(&str, &str)]) -> String {
        self.topic_named(&self.name, partitions, configs)
    }

    pub fn topic_named(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> String {
        done(self.create(name, partitions, configs, &self.options));
        eventually("leaders", || {
            let found = self.admin.inner().fetch_metadata(Some(name), CALL).expect("metadata");
            let parts = found.topics()[0].partitions();
            parts.len() == partitions as usize && (0..partitions).all(|index| self.watermarks_or(name, index).is_ok())
        });
        name.into()
    }

    pub fn create(
        &self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
        options: &AdminOptions,
    ) -> Vec<Result<String, (String, RDKafkaErrorCode)>> {
        let mut wanted = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in configs {
            wanted = wanted.set(key, value);
        }
        self.wait(self.admin.create_topics(&[wanted], options)).expect("an answer")
    }

    fn watermarks_or(&self, topic: &str, partition: i32) -> Result<(i64, i64), KafkaError> {
        self.admin.inner().fetch_watermarks(topic, partition, CALL)
    }

    pub fn watermarks(&self, topic: &str) -> (i64, i64) {
        self.watermarks_or(topic, 0).expect("watermarks")
    }

    pub fn topic_names(&self) -> Vec<String> {
        let found = self.admin.inner().fetch_metadata(None, CALL).expect("metadata");
        found.topics().iter().map(|topic| topic.name().to_string()).collect()
    }

    // ---- producing

    pub fn producer(&self, settings: &[(&str, &str)]) -> FutureProducer {
        self.config(settings).create().expect("a producer")
    }

    /// Offsets in the order of the records.
    pub fn send(&self, topic: &str, records: &[Sent]) -> Vec<i64> {
        self.send_with(&self.producer(&[]), topic, records).expect("deliveries")
    }

    pub fn send_with<C: ClientContext>(
        &self,
        producer: &FutureProducer<C>,
        topic: &str,
        records: &[Sent],
    ) -> Result<Vec<i64>, KafkaError> {
        let futures: Vec<_> =
            records.iter().map(|one| producer.send_result(record(topic, one)).ok().unwrap()).collect();
        let answers = self.wait(futures::future::join_all(futures));
        answers.into_iter().map(|answer| answer.unwrap().map(|d| d.offset).map_err(|(error, _)| error)).collect()
    }

    // ---- consuming

    pub fn consumer<C: ConsumerContext>(&self, context: C, settings: &[(&str, &str)]) -> BaseConsumer<C> {
        let mut config = self.config(&[
            ("group.id", "unused"),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "earliest"),
            ("fetch.wait.max.ms", "100"),
            ("check.crcs", "true"),
        ]);
        for (key, value) in settings {
            config.set(*key, *value);
        }
        config.create_with_context(context).expect("a consumer")
    }

    /// Holds the first partitions of a topic, from their start.
    pub fn reader(&self, topic: &str, partitions: i32) -> BaseConsumer {
        let consumer = self.consumer(rdkafka::consumer::DefaultConsumerContext, &[]);
        let places = places(topic, 0..partitions, Offset::Beginning);
        consumer.assign(&places).expect("an assignment");
        consumer
    }

    pub fn read(&self, topic: &str, count: usize) -> Vec<OwnedMessage> {
        take(&self.reader(topic, 1), count)
    }
}

pub fn places(topic: &str, partitions: impl IntoIterator<Item = i32>, offset: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition_offset(topic, partition, offset).expect("a place");
    }
    list
}

/// What is there, after a short wait.
pub fn poll<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Vec<OwnedMessage> {
    let mut found = Vec::new();
    let mut wait = POLL;
    while let Some(answer) = consumer.poll(wait) {
        match answer {
            Ok(message) => found.push(message.detach()),
            Err(KafkaError::MessageConsumption(code)) if code == RDKafkaErrorCode::OffsetOutOfRange => {}
            Err(error) => panic!("{error}"),
        }
        wait = Duration::ZERO;
    }
    found
}

/// Exactly that many records.
pub fn take<C: ConsumerContext>(consumer: &BaseConsumer<C>, count: usize) -> Vec<OwnedMessage> {
    let mut found = Vec::new();
    eventually("the records", || {
        found.extend(poll(consumer));
        found.len() >= count
    });
    assert_eq!(found.len(), count, "records");
    found
}

fn config(bootstrap: &str, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("log_level", "0");
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config
}

fn record<'a>(topic: &'a str, one: &'a Sent) -> FutureRecord<'a, Vec<u8>, Vec<u8>> {
    FutureRecord {
        topic,
        partition: Some(one.partition),
        payload: one.value.as_ref(),
        key: one.key.as_ref(),
        timestamp: one.timestamp,
        headers: one.headers.clone(),
    }
}
