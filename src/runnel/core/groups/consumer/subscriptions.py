"""What a group reads: the topics of its members, by name and by expression, and a hash that tells when they change."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from uuid import UUID

from runnel.core.groups.consumer.draft import Draft
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.values import Resolution
from runnel.core.groups.records import EpochSaved, Key, MemberSaved, RegexSaved, Removed
from runnel.core.groups.values import ClusterView, Topic


def metadata_hash(names: Iterable[str], topics: Mapping[str, Topic]) -> int:
    """0 where none of the topics exists. Only its changes mean something, so it need not be Kafka's function."""
    found = [(name, topics[name]) for name in sorted(names) if name in topics]
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for name, topic in found:
        digest.update(f"{name} {topic.topic_id.hex} {len(topic.partitions)};".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)


def topic_ids(names: Iterable[str], topics: Mapping[str, Topic]) -> frozenset[UUID]:
    return frozenset(topics[name].topic_id for name in names if name in topics)


def subscribe(draft: Draft, after: MemberSaved) -> bool:
    """The member is and wants this now; whether what it wants is new."""
    before = draft.members.get(after.member_id)
    if after == before:
        return False
    draft.log(after)
    old = before or MemberSaved(after.group_id, after.member_id)
    if old.regex != after.regex:
        forget_regex(draft, old.regex)
    return set(old.topics) != set(after.topics) or old.regex != after.regex


def forget_regex(draft: Draft, regex: str) -> None:
    """An expression that nobody has any more is forgotten."""
    if regex in draft.regexes and regex not in draft.regex_members:
        draft.log(Removed(Key.REGEX, draft.group_id, regex))


def resolve(draft: Draft, resolution: Resolution | None, cluster: ClusterView, now_ms: int) -> bool:
    """Take over what the expressions of the group match; whether that is new."""
    if resolution is None:
        return False
    changed = False
    for regex, names in resolution.matches.items():
        known = draft.regexes.get(regex)
        if regex in draft.regex_members and (known is None or set(known.topics) != set(names)):
            draft.log(RegexSaved(draft.group_id, regex, names, cluster.version, now_ms))
            changed = True
    return changed


def begin_epoch(draft: Draft, cluster: ClusterView, *, changed: bool) -> None:
    """A new epoch, if the members changed or the topics that they read did."""
    if not changed and draft.topics_seen is cluster.topics:
        return
    names = frozenset().union(*(draft.wanted_topics(member) for member in draft.members.values()))
    found = metadata_hash(names, cluster.topics)
    if changed or found != draft.metadata_hash:
        draft.log(EpochSaved(draft.group_id, draft.epoch + 1, found))


def stale_regexes(group: ConsumerGroup, cluster: ClusterView, oldest_ms: int) -> list[str]:
    """The expressions that have to be resolved anew: never resolved, or not since the topics changed or `oldest_ms`."""
    if group.regexes_seen is not cluster.topics or group.regexes_seen_ms < oldest_ms:
        return list(group.regex_members)
    return [regex for regex in group.regex_members if regex not in group.regexes]
