// Scenarios of the areas "Consumer groups" and "Groups and offsets, administered".

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Mutex;

use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::run::{done, eventually, numbered, places, poll, refusal, sent, text, Run, CALL};
use crate::Scenarios;

const PARTITIONS: i32 = 4;
const EACH: i64 = 25;
type Settings = &'static [(&'static str, &'static str)];
const EAGER: Settings = &[("partition.assignment.strategy", "range"), ("heartbeat.interval.ms", "100")];
const COOPERATIVE: Settings =
    &[("partition.assignment.strategy", "cooperative-sticky"), ("heartbeat.interval.ms", "100")];
const CONSUMER: Settings = &[("group.protocol", "consumer")];

pub fn add(all: &mut Scenarios) {
    all.insert("group-eager", Box::new(|run| drop(share_and_leave(run, EAGER, EAGER))));
    all.insert("group-cooperative", Box::new(cooperative));
    all.insert("group-static", Box::new(statics));
    all.insert("commit-metadata", Box::new(commit_metadata));
    all.insert("auto-commit", Box::new(auto_commit));
    all.insert("kip848", Box::new(next_generation));
    all.insert("kip848-regex", Box::new(pattern));
    all.insert("kip848-migration", Box::new(|run| drop(share_and_leave(run, EAGER, CONSUMER))));
    all.insert("groups-describe", Box::new(describe));
    all.insert("group-offsets-list", Box::new(list_offsets));
    all.insert("group-offsets-alter", Box::new(alter_offsets));
    all.insert("groups-delete", Box::new(delete));
}

/// What a member was told of rebalances.
#[derive(Default)]
struct Told(Mutex<(usize, BTreeSet<i32>)>);

impl ClientContext for Told {}

impl ConsumerContext for Told {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let mut told = self.0.lock().unwrap();
        match rebalance {
            Rebalance::Assign(_) => told.0 += 1,
            Rebalance::Revoke(list) => told.1.extend(list.elements().iter().map(|one| one.partition())),
            Rebalance::Error(_) => {}
        }
    }
}

struct Member {
    consumer: BaseConsumer<Told>,
    values: RefCell<Vec<String>>,
}

impl Member {
    fn join(run: &Run, group: &str, subscription: &str, settings: &[(&str, &str)]) -> Member {
        let all = [&[("group.id", group), ("session.timeout.ms", "10000")][..], settings].concat();
        // The new protocol leaves the session to the broker.
        let fits: Vec<_> =
            all.iter().filter(|one| one.0 != "session.timeout.ms" || settings != CONSUMER).copied().collect();
        let consumer = run.consumer(Told::default(), &fits);
        consumer.subscribe(&[subscription]).expect("a subscription");
        Member { consumer, values: RefCell::default() }
    }

    fn poll(&self) {
        self.values.borrow_mut().extend(poll(&self.consumer).iter().map(|one| text(one.payload()).unwrap()));
    }

    fn held(&self) -> BTreeSet<i32> {
        let assignment = self.consumer.assignment().expect("an assignment");
        let held = assignment.elements().iter().map(|one| one.partition()).collect();
        held
    }

    fn count(&self) -> usize {
        self.values.borrow().len()
    }

    fn rebalances(&self) -> usize {
        self.consumer.context().0.lock().unwrap().0
    }

    fn revoked(&self) -> BTreeSet<i32> {
        self.consumer.context().0.lock().unwrap().1.clone()
    }

    fn commit(&self, topic: &str, offset: i64) {
        let list = places(topic, self.held(), Offset::Offset(offset));
        self.consumer.commit(&list, CommitMode::Sync).expect("a commit");
    }
}

/// Every partition by exactly one of them, and no member without.
fn all_held(members: &[&Member]) -> bool {
    let held: Vec<_> = members.iter().map(|member| member.held()).collect();
    let every: BTreeSet<i32> = held.iter().flatten().copied().collect();
    held.iter().all(|one| !one.is_empty())
        && held.iter().map(BTreeSet::len).sum::<usize>() == PARTITIONS as usize
        && every.len() == PARTITIONS as usize
}

fn poll_until(what: &str, members: &[&Member], holds: impl Fn() -> bool) {
    eventually(what, || {
        members.iter().for_each(|member| member.poll());
        holds()
    });
}

/// Records into every partition, read by the members: each exactly once.
fn fill_and_read(run: &Run, topic: &str, mark: &str, members: &[&Member]) {
    let count = PARTITIONS as i64 * EACH;
    let records: Vec<_> =
        (0..count).map(|i| sent(None, Some(&format!("{mark} {i:03}")), (i % PARTITIONS as i64) as i32)).collect();
    members.iter().for_each(|member| member.values.borrow_mut().clear());
    run.send(topic, &records);
    let total = || members.iter().map(|member| member.count()).sum::<usize>();
    poll_until("every record", members, || total() >= count as usize);
    let mut found: Vec<_> = members.iter().flat_map(|member| member.values.borrow().clone()).collect();
    found.sort();
    assert_eq!(found, (0..count).map(|i| format!("{mark} {i:03}")).collect::<Vec<_>>(), "each record once");
}

fn committed(run: &Run, group: &str, partitions: i32) -> Vec<(Offset, String)> {
    let consumer = run.consumer(Told::default(), &[("group.id", group)]);
    let asked = places(group, 0..partitions, Offset::Invalid);
    let found: TopicPartitionList = consumer.committed_offsets(asked, CALL).expect("offsets");
    let rows = found.elements().iter().map(|one| (one.offset(), one.metadata().to_string())).collect();
    rows
}

fn share_and_leave(run: &Run, first: Settings, second: Settings) -> Member {
    let topic = run.topic(PARTITIONS, &[]);
    let one = Member::join(run, &topic, &topic, first);
    poll_until("everything for one member", &[&one], || all_held(&[&one]));
    let two = Member::join(run, &topic, &topic, second);
    poll_until("a share for each", &[&one, &two], || all_held(&[&one, &two]));
    assert_eq!(one.held().len(), 2, "partitions of the first");
    fill_and_read(run, &topic, "shared", &[&one, &two]);
    one.commit(&topic, EACH);
    two.commit(&topic, EACH);
    drop(one);
    poll_until("everything for the other", &[&two], || all_held(&[&two]));
    for (offset, _) in committed(run, &topic, PARTITIONS) {
        assert_eq!(offset, Offset::Offset(EACH), "committed");
    }
    two
}

fn cooperative(run: &Run) {
    let topic = run.topic(PARTITIONS, &[]);
    let one = Member::join(run, &topic, &topic, COOPERATIVE);
    poll_until("everything for one member", &[&one], || all_held(&[&one]));
    let two = Member::join(run, &topic, &topic, COOPERATIVE);
    poll_until("a share for each", &[&one, &two], || all_held(&[&one, &two]));
    assert_eq!(one.revoked(), two.held(), "what the first member gave up");
    fill_and_read(run, &topic, "shared", &[&one, &two]);
}

fn statics(run: &Run) {
    let topic = run.topic(PARTITIONS, &[]);
    let join = |id| Member::join(run, &topic, &topic, &[EAGER, &[("group.instance.id", id)]].concat());
    let (one, two) = (join("one"), join("two"));
    poll_until("a share for each", &[&one, &two], || all_held(&[&one, &two]));
    fill_and_read(run, &topic, "before", &[&one, &two]);
    one.commit(&topic, EACH);
    two.commit(&topic, EACH);
    let (held, rebalances) = (two.held(), one.rebalances());
    drop(two);
    let again = join("two");
    poll_until("the share again", &[&one, &again], || all_held(&[&one, &again]));
    assert_eq!(again.held(), held, "partitions after the restart");
    fill_and_read(run, &topic, "after", &[&one, &again]);
    assert_eq!(one.rebalances(), rebalances, "rebalances of the other member");
}

fn commit_metadata(run: &Run) {
    let topic = run.topic(1, &[]);
    run.send(&topic, &numbered(10));
    let one = Member::join(run, &topic, &topic, EAGER);
    poll_until("ten records", &[&one], || one.count() == 10);
    let mut list = TopicPartitionList::new();
    let mut place = list.add_partition(&topic, 0);
    place.set_offset(Offset::Offset(4)).expect("an offset");
    place.set_metadata("see page 7");
    one.consumer.commit(&list, CommitMode::Sync).expect("a commit");
    assert_eq!(committed(run, &topic, 1), [(Offset::Offset(4), "see page 7".into())], "offset and metadata");
    drop(one);
    let two = Member::join(run, &topic, &topic, EAGER);
    poll_until("what was not committed", &[&two], || two.count() >= 6);
    assert_eq!(two.count(), 6, "records");
    assert_eq!(two.values.borrow()[0], "value 4 ".repeat(20), "the first value");
}

fn auto_commit(run: &Run) {
    let topic = run.topic(1, &[]);
    run.send(&topic, &numbered(10));
    let one = Member::join(run, &topic, &topic, &[EAGER, &[("enable.auto.commit", "true")]].concat());
    poll_until("ten records", &[&one], || one.count() == 10);
    drop(one);
    assert_eq!(committed(run, &topic, 1)[0].0, Offset::Offset(10), "committed");
}

fn next_generation(run: &Run) {
    drop(share_and_leave(run, CONSUMER, CONSUMER));
    run.send(&run.name, &[sent(None, Some("later"), 0)]);
    let three = Member::join(run, &run.name, &run.name, CONSUMER);
    poll_until("what is new", &[&three], || three.count() > 0);
    assert_eq!(*three.values.borrow(), ["later"], "what a new member reads");
}

fn pattern(run: &Run) {
    let wanted: Vec<_> = ["a", "b"].map(|part| run.topic_named(&run.part(part), 1, &[])).into();
    let other = run.topic_named(&run.part("other"), 1, &[]);
    let pattern = format!("^{}\\.[ab]$", run.name.replace('.', "\\."));
    let member = Member::join(run, &run.name, &pattern, CONSUMER);
    for topic in wanted.iter().chain([&other]) {
        run.send(topic, &[sent(None, Some(topic), 0)]);
    }
    poll_until("a record of each", &[&member], || member.count() >= 2);
    let mut found = member.values.borrow().clone();
    found.sort();
    assert_eq!(found, wanted, "records");
}

// ---- administered

fn state(run: &Run, group: &str) -> (String, Vec<String>) {
    let found = run.admin.inner().fetch_group_list(Some(group), CALL).expect("groups");
    let group = &found.groups()[0];
    let members = group.members().iter().map(|member| member.client_id().to_string()).collect();
    (group.state().to_string(), members)
}

fn describe(run: &Run) {
    let topic = run.topic(2, &[]);
    let member = Member::join(run, &topic, &topic, &[EAGER, &[("client.id", "who")]].concat());
    poll_until("an assignment", &[&member], || member.held().len() == 2);
    let listed = run.admin.inner().fetch_group_list(None, CALL).expect("groups");
    assert!(listed.groups().iter().any(|group| group.name() == topic), "not listed");
    assert_eq!(state(run, &topic), ("Stable".into(), vec!["who".into()]), "the group");
    drop(member);
    eventually("an empty group", || state(run, &topic) == ("Empty".into(), vec![]));
}

/// A group without members that has committed 5 on each of two partitions; named as its topic.
fn committed_group(run: &Run) -> String {
    let topic = run.topic(2, &[]);
    let records: Vec<_> = (0..16).map(|i| sent(None, Some(&format!("{}", i / 2)), i % 2)).collect();
    run.send(&topic, &records);
    let member = Member::join(run, &topic, &topic, EAGER);
    poll_until("an assignment", &[&member], || member.held().len() == 2);
    member.commit(&topic, 5);
    topic
}

fn list_offsets(run: &Run) {
    let five = (Offset::Offset(5), String::new());
    assert_eq!(committed(run, &committed_group(run), 2), [five.clone(), five], "offsets");
}

fn alter_offsets(run: &Run) {
    let group = committed_group(run);
    let consumer = run.consumer(Told::default(), &[("group.id", &group)]);
    let mut list = places(&group, [0], Offset::Offset(8));
    list.add_partition_offset(&group, 1, Offset::Offset(2)).expect("a place");
    consumer.commit(&list, CommitMode::Sync).expect("a commit");
    let found: Vec<_> = committed(run, &group, 2).into_iter().map(|row| row.0).collect();
    assert_eq!(found, [Offset::Offset(8), Offset::Offset(2)], "offsets");
    let member = Member::join(run, &group, &group, EAGER);
    poll_until("what is left", &[&member], || member.count() >= 6);
    assert_eq!(*member.values.borrow(), ["2", "3", "4", "5", "6", "7"], "what is read");
}

fn delete(run: &Run) {
    let group = committed_group(run);
    let delete = || run.wait(run.admin.delete_groups(&[&group], &run.options)).expect("an answer");
    let member = Member::join(run, &group, &group, EAGER);
    poll_until("an assignment", &[&member], || member.held().len() == 2);
    assert_eq!(refusal(delete()), RDKafkaErrorCode::NonEmptyGroup, "the refusal");
    drop(member);
    done(delete());
    assert_eq!(refusal(delete()), RDKafkaErrorCode::GroupIdNotFound, "the refusal");
}
