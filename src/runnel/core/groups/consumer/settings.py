"""The settings of one group: what is configured for it, within the broker's limits, else the broker's default."""

from runnel.core.groups.records import MemberSaved
from runnel.core.groups.store import GroupStore


def _of(store: GroupStore, group_id: str, name: str, default: int, least: int, most: int) -> int:
    """A value that the broker's limits no longer allow is moved to the nearest that they do, as in Kafka."""
    configured = store.cluster.group_configs.get(group_id, {}).get(name)
    return default if configured is None else min(max(int(configured), least), most)


def session_timeout_ms(store: GroupStore, group_id: str, member: MemberSaved | None = None) -> int:
    """A classic member has brought its own."""
    if member is not None and member.classic is not None:
        return member.classic.session_timeout_ms
    limits = store.limits.consumer
    bounds = (limits.session_timeout_ms, limits.session_timeout_ms_min, limits.session_timeout_ms_max)
    return _of(store, group_id, "consumer.session.timeout.ms", *bounds)


def heartbeat_interval_ms(store: GroupStore, group_id: str) -> int:
    limits = store.limits.consumer
    bounds = (limits.heartbeat_interval_ms, limits.heartbeat_interval_ms_min, limits.heartbeat_interval_ms_max)
    return _of(store, group_id, "consumer.heartbeat.interval.ms", *bounds)


def assignment_interval_ms(store: GroupStore, group_id: str) -> int:
    limits = store.limits.consumer
    bounds = (limits.assignment_interval_ms, limits.assignment_interval_ms_min, limits.assignment_interval_ms_max)
    return _of(store, group_id, "consumer.assignment.interval.ms", *bounds)
