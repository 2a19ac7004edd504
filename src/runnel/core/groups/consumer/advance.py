"""What a request of a member leads to: it is saved, the group may begin an epoch and compute a target, and the member
takes one step towards it.
"""

from collections.abc import Mapping
from uuid import UUID

from runnel.core.groups.assignors import ASSIGNORS, Wish
from runnel.core.groups.consumer.draft import Draft
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.reconciliation import Reported, Step, reconcile
from runnel.core.groups.consumer.settings import assignment_interval_ms
from runnel.core.groups.consumer.subscriptions import begin_epoch, resolve, subscribe, topic_ids
from runnel.core.groups.consumer.values import Resolution
from runnel.core.groups.records import CurrentSaved, MemberSaved, TargetEpochSaved, TargetSaved
from runnel.core.groups.store import GroupStore
from runnel.core.groups.values import ClusterView, ConsumerLimits


def advance(
    store: GroupStore,
    draft: Draft,
    member: MemberSaved,
    reported: Reported | None,
    now_ms: int,
    *,
    resolution: Resolution | None = None,
    caught_up: bool = True,
) -> CurrentSaved:
    """Log what follows; what the member has afterwards. One that has not caught up with what it was told takes no step,
    unless it reads other topics now."""
    cluster = store.cluster
    changed = subscribe(draft, member)
    changed = resolve(draft, resolution, cluster, now_ms) or changed
    begin_epoch(draft, cluster, changed=changed)
    if draft.epoch > draft.target_epoch and now_ms - draft.target_ms >= assignment_interval_ms(store, draft.group_id):
        new_target(draft, cluster, store.limits.consumer, now_ms)
    if not (caught_up or changed):
        return draft.current_of(member.member_id)
    return _step(draft, member, reported if caught_up else None, cluster, changed=changed)


def _step(
    draft: Draft, member: MemberSaved, reported: Reported | None, cluster: ClusterView, *, changed: bool
) -> CurrentSaved:
    current = draft.current_of(member.member_id)
    step = Step(
        draft.target_of(member.member_id),
        draft.target_epoch,
        reported,
        lambda topic_id, partition: draft.owner_of(topic_id, partition) in (None, member.member_id),
        topic_ids(draft.wanted_topics(member), cluster.topics) if changed else None,
    )
    after = reconcile(current, step)
    if after is not current:
        draft.log(after)
    return after


def new_target(draft: Draft, cluster: ClusterView, limits: ConsumerLimits, now_ms: int) -> None:
    """Let the assignor of the group's choice assign for the current epoch."""
    assign = ASSIGNORS[preferred_assignor(draft, limits)]
    counts: dict[UUID, int] = {}
    wishes = _wishes(draft, cluster, counts)
    for member_id, partitions in assign(wishes, counts).items():
        if partitions != draft.targets.get(member_id):
            draft.log(TargetSaved(draft.group_id, member_id, partitions))
    draft.log(TargetEpochSaved(draft.group_id, draft.epoch, now_ms))


def _wishes(draft: Draft, cluster: ClusterView, counts: dict[UUID, int]) -> Mapping[str, Wish]:
    """Members with the same names share one set: the assignor compares them all."""
    sets: dict[frozenset[str], frozenset[UUID]] = {}
    wishes = {}
    for member_id, member in draft.members.items():
        names = draft.wanted_topics(member)
        if names not in sets:
            sets[names] = topic_ids(names, cluster.topics)
            counts.update(
                (cluster.topics[name].topic_id, len(cluster.topics[name].partitions))
                for name in names
                if name in cluster.topics
            )
        wishes[member_id] = Wish(sets[names], draft.target_of(member_id), member.instance_id)
    return wishes


def preferred_assignor(group: ConsumerGroup, limits: ConsumerLimits) -> str:
    """The one that most members ask for; the broker's first where nobody does, or by equal votes."""
    votes = dict.fromkeys(limits.assignors, 0)
    for member in group.members.values():
        if member.assignor in votes:
            votes[member.assignor] += 1
    return max(votes, key=lambda name: votes[name])
