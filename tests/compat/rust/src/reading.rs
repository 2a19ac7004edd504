// Scenarios of the area "Reading": where a consumer may start, stop and wait.

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;

use crate::run::{check_numbered, eventually, numbered, places, poll, sent, take, text, Run, Sent, BASE_MS, CALL};
use crate::Scenarios;

const COMPACT: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("segment.ms", "50"),
    ("min.cleanable.dirty.ratio", "0.001"),
    ("delete.retention.ms", "0"),
];

pub fn add(all: &mut Scenarios) {
    all.insert("seek-time", Box::new(seek_time));
    all.insert("seek-ends", Box::new(seek_ends));
    all.insert("pause-resume", Box::new(pause_resume));
    all.insert("tail", Box::new(tail));
    all.insert("reset", Box::new(reset));
    all.insert("watermarks", Box::new(watermarks));
    all.insert("compacted", Box::new(compacted));
}

fn offset_at(consumer: &BaseConsumer, topic: &str, timestamp: i64) -> Offset {
    let found = consumer.offsets_for_times(places(topic, [0], Offset::Offset(timestamp)), CALL).expect("offsets");
    let offset = found.elements()[0].offset();
    offset
}

fn seek_time(run: &Run) {
    let topic = run.topic(1, &[("retention.ms", "-1")]);
    for later in [0, 1, 2, 1000, 1001] {
        let one = sent(None, Some(&format!("at {later}")), 0);
        run.send(&topic, &[Sent { timestamp: Some(BASE_MS + later), ..one }]);
    }
    let reader = run.reader(&topic, 1);
    for (later, offset) in [(-1, 0), (1, 1), (3, 3), (1001, 4)] {
        assert_eq!(offset_at(&reader, &topic, BASE_MS + later), Offset::Offset(offset), "the offset at {later} ms");
    }
    assert_eq!(offset_at(&reader, &topic, BASE_MS + 2000), Offset::End, "the offset after the last");
    take(&reader, 5);
    reader.seek(&topic, 0, offset_at(&reader, &topic, BASE_MS + 3), CALL).expect("a seek");
    let values: Vec<_> = take(&reader, 2).iter().map(|one| text(one.payload()).unwrap()).collect();
    assert_eq!(values, ["at 1000", "at 1001"], "what follows");
}

fn seek_ends(run: &Run) {
    let topic = run.topic(1, &[]);
    run.send_with(&run.producer(&[("linger.ms", "50")]), &topic, &numbered(100)).expect("deliveries");
    let reader = run.reader(&topic, 1);
    let seek = |place| reader.seek(&topic, 0, place, CALL).expect("a seek");
    check_numbered(&take(&reader, 100), 100);
    for start in [57, 3, 99] {
        seek(Offset::Offset(start));
        let found = take(&reader, 100 - start as usize);
        assert_eq!(found[0].offset(), start, "the first offset");
        assert_eq!(text(found[0].key()), Some(format!("key {start}")), "the first key");
    }
    seek(Offset::Beginning);
    check_numbered(&take(&reader, 100), 100);
    seek(Offset::End);
    let mut found = Vec::new();
    eventually("a record after the end", || {
        // Nothing outside shows when the position is set, so there is news until one is seen.
        run.send(&topic, &[sent(None, Some("news"), 0)]);
        found = poll(&reader);
        !found.is_empty()
    });
    assert!(found[0].offset() >= 100, "offset {}", found[0].offset());
    assert_eq!(text(found[0].payload()).as_deref(), Some("news"), "the next record");
    let last = found.last().unwrap().offset();
    let position = reader.position().expect("a position");
    assert_eq!(position.elements()[0].offset(), Offset::Offset(last + 1), "the position");
}

fn pause_resume(run: &Run) {
    let topic = run.topic(2, &[]);
    let reader = run.reader(&topic, 2);
    let to_both = |each: i32| {
        let records: Vec<_> = (0..2 * each).map(|i| sent(None, Some(&format!("record {i}")), i % 2)).collect();
        run.send(&topic, &records);
    };
    to_both(1);
    take(&reader, 2);
    let second = places(&topic, [1], Offset::Invalid);
    reader.pause(&second).expect("a pause");
    to_both(5);
    assert!(take(&reader, 5).iter().all(|one| one.partition() == 0), "something of the paused partition");
    for _ in 0..3 {
        assert!(poll(&reader).is_empty(), "something while paused");
    }
    reader.resume(&second).expect("a resumption");
    let found: Vec<_> = take(&reader, 5).iter().map(|one| (one.partition(), one.offset())).collect();
    assert_eq!(found, (1..6).map(|offset| (1, offset)).collect::<Vec<_>>(), "what was held back");
}

fn tail(run: &Run) {
    let topic = run.topic(1, &[]);
    let reader = run.reader(&topic, 1);
    assert!(poll(&reader).is_empty(), "records of an empty topic");
    for number in ["0", "1", "2"] {
        run.send(&topic, &[sent(None, Some(number), 0)]);
        assert_eq!(text(take(&reader, 1)[0].payload()).as_deref(), Some(number), "the news");
    }
}

fn reset(run: &Run) {
    let topic = run.topic(1, &[]);
    run.send(&topic, &numbered(10));
    let reader = run.reader(&topic, 1);
    take(&reader, 10);
    reader.seek(&topic, 0, Offset::Offset(1000), CALL).expect("a seek");
    check_numbered(&take(&reader, 10), 10);
}

fn watermarks(run: &Run) {
    let topic = run.topic(1, &[]);
    assert_eq!(run.watermarks(&topic), (0, 0), "of the empty partition");
    run.send(&topic, &numbered(7));
    assert_eq!(run.watermarks(&topic), (0, 7), "of the filled partition");
}

fn compacted(run: &Run) {
    let topic = run.topic(1, COMPACT);
    let producer = run.producer(&[]);
    let problem = run.send_with(&producer, &topic, &[sent(None, Some("no key"), 0)]).expect_err("delivered");
    assert_eq!(problem.rdkafka_error_code(), Some(RDKafkaErrorCode::InvalidRecord), "the refusal");
    for turn in 0..20 {
        let records: Vec<_> = (0..10).map(|key| sent(Some(&format!("k{key}")), Some(&format!("{turn}")), 0)).collect();
        run.send_with(&producer, &topic, &records).expect("deliveries");
    }
    run.send_with(&producer, &topic, &[sent(Some("k9"), None, 0)]).expect("deliveries");
    let mut rows = Vec::new();
    eventually("a cleaned log", || {
        // A record rolls the segment before it, which the cleaner may then take.
        run.send_with(&producer, &topic, &[sent(Some("tick"), Some(""), 0)]).expect("deliveries");
        rows = everything(run, &topic);
        rows.len() == 9
    });
    let expected: Vec<_> = (0..9).map(|key| format!("{} k{key} 19", 190 + key)).collect();
    assert_eq!(rows, expected, "the last value of each key");
}

/// Offset, key and value of each record but the ticks.
fn everything(run: &Run, topic: &str) -> Vec<String> {
    let (_, end) = run.watermarks(topic);
    let reader = run.reader(topic, 1);
    let (mut next, mut rows) = (0, Vec::new());
    eventually("the end", || {
        for one in poll(&reader) {
            next = one.offset() + 1;
            let (key, value) = (text(one.key()).unwrap(), text(one.payload()).unwrap_or_default());
            if key != "tick" {
                rows.push(format!("{} {key} {value}", one.offset()));
            }
        }
        next == end
    });
    rows
}
