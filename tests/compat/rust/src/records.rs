// Scenarios of the area "Records": what goes in comes out.

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, Message, OwnedHeaders, Timestamp};

use crate::run::{check_numbered, eventually, header_values, numbered, poll, sent, take, Run, Sent, BASE_MS};
use crate::Scenarios;

pub fn add(all: &mut Scenarios) {
    all.insert("round-trip", Box::new(|run| exchange(run, 500, &[])));
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        all.insert(codec, Box::new(move |run| exchange(run, 500, &[("compression.type", codec)])));
    }
    let small = [("enable.idempotence", "true"), ("batch.size", "2000")];
    all.insert("idempotent", Box::new(move |run| exchange(run, 1000, &small)));
    all.insert("batching", Box::new(|run| exchange(run, 2000, &[("linger.ms", "50")])));
    all.insert("acks", Box::new(acks));
    let some: &[(&str, Option<&str>)] =
        &[("trace", Some("abc")), ("repeated", Some("1")), ("repeated", Some("2")), ("empty", Some(""))];
    all.insert("headers", Box::new(move |run| headers(run, some)));
    all.insert("null-headers", Box::new(|run| headers(run, &[("nothing", None), ("something", Some("x"))])));
    all.insert("nulls", Box::new(nulls));
    all.insert("large", Box::new(large));
    all.insert("too-large", Box::new(too_large));
    all.insert("partitions", Box::new(partitions));
    all.insert("timestamps", Box::new(timestamps));
    all.insert("auto-create", Box::new(auto_create));
}

fn exchange(run: &Run, count: usize, settings: &[(&str, &str)]) {
    let topic = run.topic(1, &[]);
    let offsets = run.send_with(&run.producer(settings), &topic, &numbered(count)).expect("deliveries");
    assert_eq!(offsets, (0..count as i64).collect::<Vec<_>>(), "offsets told to the producer");
    check_numbered(&run.read(&topic, count), count);
}

fn acks(run: &Run) {
    for level in ["0", "1", "all"] {
        let topic = run.topic_named(&run.part(level), 1, &[]);
        run.send_with(&run.producer(&[("acks", level)]), &topic, &numbered(10)).expect("deliveries");
        eventually("ten records", || run.watermarks(&topic) == (0, 10));
        check_numbered(&run.read(&topic, 10), 10);
    }
}

fn headers(run: &Run, wanted: &[(&str, Option<&str>)]) {
    let topic = run.topic(1, &[]);
    let mut headers = OwnedHeaders::new();
    for (key, value) in wanted {
        headers = headers.insert(Header { key, value: *value });
    }
    run.send(&topic, &[Sent { headers: Some(headers), ..sent(Some("k"), Some("v"), 0) }]);
    let expected: Vec<_> =
        wanted.iter().map(|(key, value)| (key.to_string(), value.map(|text| text.as_bytes().to_vec()))).collect();
    assert_eq!(header_values(&run.read(&topic, 1)[0]), expected, "headers");
}

fn nulls(run: &Run) {
    let topic = run.topic(1, &[]);
    let pairs = [(None, Some("v")), (Some("k"), None), (Some(""), Some("v")), (Some("k"), Some(""))];
    run.send(&topic, &pairs.map(|(key, value)| sent(key, value, 0)));
    for (one, (key, value)) in run.read(&topic, 4).iter().zip(pairs) {
        assert_eq!(one.key(), key.map(str::as_bytes), "a key");
        assert_eq!(one.payload(), value.map(str::as_bytes), "a value");
    }
}

fn large(run: &Run) {
    let topic = run.topic(1, &[("max.message.bytes", "3000000")]);
    let records = [b'A', b'B', b'C'].map(|letter| Sent { value: Some(vec![letter; 1 << 20]), ..Sent::default() });
    run.send_with(&run.producer(&[("message.max.bytes", "3000000")]), &topic, &records).expect("deliveries");
    for (found, expected) in run.read(&topic, 3).iter().zip(records) {
        assert!(found.payload() == expected.value.as_deref(), "a value changed");
    }
}

fn too_large(run: &Run) {
    let topic = run.topic(1, &[("max.message.bytes", "100000")]);
    let big = Sent { value: Some(vec![b'x'; 200_000]), ..Sent::default() };
    let problem = run.send_with(&run.producer(&[]), &topic, &[big]).expect_err("delivered");
    assert_eq!(problem.rdkafka_error_code(), Some(RDKafkaErrorCode::MessageSizeTooLarge), "the refusal");
    assert_eq!(run.watermarks(&topic), (0, 0), "watermarks");
}

fn partitions(run: &Run) {
    let topic = run.topic(100, &[]);
    let records: Vec<_> = (0..100).map(|index| sent(None, Some(&format!("for {index}")), index)).collect();
    run.send(&topic, &records);
    for one in take(&run.reader(&topic, 100), 100) {
        assert_eq!(one.payload(), Some(format!("for {}", one.partition()).as_bytes()), "the record of its partition");
    }
}

fn timestamps(run: &Run) {
    let kept = run.topic_named(&run.part("create"), 1, &[("retention.ms", "-1")]);
    let stamped = run.topic_named(&run.part("append"), 1, &[("message.timestamp.type", "LogAppendTime")]);
    for topic in [&kept, &stamped] {
        run.send(topic, &[Sent { timestamp: Some(BASE_MS), ..sent(None, Some("v"), 0) }]);
    }
    assert_eq!(run.read(&kept, 1)[0].timestamp(), Timestamp::CreateTime(BASE_MS), "create time");
    match run.read(&stamped, 1)[0].timestamp() {
        Timestamp::LogAppendTime(at) => assert!(at > BASE_MS, "append time {at}"),
        other => panic!("{other:?} is no append time"),
    }
}

fn auto_create(run: &Run) {
    assert_eq!(run.send(&run.name, &[sent(None, Some("first"), 0)]), [0], "its offset");
    let reader = run.reader(&run.name, 1);
    assert_eq!(take(&reader, 1)[0].payload(), Some(&b"first"[..]), "its value");
    assert!(poll(&reader).is_empty(), "more than was sent");
}
