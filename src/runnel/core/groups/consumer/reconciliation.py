"""One step of a member towards its target: give up before anybody gets, and get only what is free.

The states and their order are KIP-848's. A member that must give partitions up stays in its epoch until it no longer
reports them (UNREVOKED); then it moves to the target's epoch and gets what is free, and waits for the rest
(UNRELEASED). A pure function of what was replayed and what the member reports.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from runnel.core.groups.records import CurrentSaved, MemberState, Owned, Partitions
from runnel.core.groups.records.consumer import NOT_OWNED

Reported = Mapping[UUID, Collection[int]]


class Step(NamedTuple):
    """What decides about the next step. `reported`: what the member says it has, None where it does not say.
    `subscribed`: the topics that it reads, None where that has not changed with this request."""

    target: Partitions
    target_epoch: int
    reported: Reported | None
    is_free: Callable[[UUID, int], bool]
    subscribed: frozenset[UUID] | None = None


def reconcile(current: CurrentSaved, step: Step) -> CurrentSaved:
    """The member after the step; the same value where there is nothing to do."""
    if current.state is MemberState.UNREVOKED:
        if _still_has(current.revoking, step.reported):
            return _without_unsubscribed(current, step)
        return _next(current, current.epoch + 1, step)
    if current.state is MemberState.UNRELEASED or current.epoch != step.target_epoch:
        return _next(current, current.epoch, step)
    return _without_unsubscribed(current, step)


def _still_has(revoking: Owned, reported: Reported | None) -> bool:
    """Whether the member has, or may have, some of what it was to give up."""
    if reported is None:
        return True
    return any(not partitions.keys().isdisjoint(reported.get(topic, ())) for topic, partitions in revoking.items())


def _next(current: CurrentSaved, epoch: int, step: Step) -> CurrentSaved:
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    for topic_id, partitions in current.assigned.items():
        wanted = _target(step, topic_id)
        kept[topic_id] = {p: since for p, since in partitions.items() if p in wanted}
        revoking[topic_id] = {p: since for p, since in partitions.items() if p not in wanted}
    revoking = _filled(revoking)
    if revoking and _still_has(revoking, step.reported):
        return _changed(current, epoch, MemberState.UNREVOKED, _filled(kept), revoking)
    awaiting = False
    for topic_id in step.target:
        mine = kept.setdefault(topic_id, {})
        missing = [p for p in _target(step, topic_id) if p not in mine]
        free = [p for p in missing if step.is_free(topic_id, p)]
        mine.update(dict.fromkeys(free, step.target_epoch))
        awaiting = awaiting or len(free) < len(missing)
    state = MemberState.UNRELEASED if awaiting else MemberState.STABLE
    return _changed(current, step.target_epoch, state, _filled(kept), NOT_OWNED)


def _target(step: Step, topic_id: UUID) -> Collection[int]:
    if step.subscribed is not None and topic_id not in step.subscribed:
        return ()
    return frozenset(step.target.get(topic_id, ()))


def _without_unsubscribed(current: CurrentSaved, step: Step) -> CurrentSaved:
    """A topic that the member no longer reads is taken at once, before the target is computed anew."""
    if step.subscribed is None:
        return current
    dropped = {topic: partitions for topic, partitions in current.assigned.items() if topic not in step.subscribed}
    if not dropped:
        return current
    kept = {topic: partitions for topic, partitions in current.assigned.items() if topic not in dropped}
    revoking: dict[UUID, Mapping[int, int]] = dict(current.revoking)
    for topic, partitions in dropped.items():
        revoking[topic] = {**revoking.get(topic, {}), **partitions}
    if _still_has(revoking, step.reported):
        return _changed(current, current.epoch, MemberState.UNREVOKED, kept, revoking)
    return _changed(current, current.epoch, current.state, kept, NOT_OWNED)


def _filled(owned: Mapping[UUID, Mapping[int, int]]) -> dict[UUID, dict[int, int]]:
    return {topic: dict(sorted(partitions.items())) for topic, partitions in owned.items() if partitions}


def _changed(current: CurrentSaved, epoch: int, state: MemberState, assigned: Owned, revoking: Owned) -> CurrentSaved:
    """Every change makes the current epoch the previous one: a late request of before must not count as an answer."""
    if (epoch, state, assigned, revoking) == (current.epoch, current.state, current.assigned, current.revoking):
        return current
    return current._replace(
        epoch=epoch, previous_epoch=current.epoch, state=state, assigned=assigned, revoking=revoking
    )
