"""What the broker's configuration says to the group coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.core.groups import ConsumerLimits, GroupLimits, MigrationPolicy

if TYPE_CHECKING:
    from runnel.services.configs import ConfigService


def group_limits(configs: ConfigService) -> GroupLimits:
    broker = configs.broker
    return GroupLimits(
        session_timeout_ms_min=broker["group.min.session.timeout.ms"],
        session_timeout_ms_max=broker["group.max.session.timeout.ms"],
        members_max=broker["group.max.size"],
        initial_delay_ms=broker["group.initial.rebalance.delay.ms"],
        offset_metadata_bytes_max=broker["offset.metadata.max.bytes"],
        offset_retention_ms=broker["offsets.retention.minutes"] * 60_000,
        expiry_interval_ms=broker["offsets.retention.check.interval.ms"],
        consumer=consumer_limits(configs),
    )


def consumer_limits(configs: ConfigService) -> ConsumerLimits:
    broker = configs.broker
    return ConsumerLimits(
        session_timeout_ms=broker["group.consumer.session.timeout.ms"],
        session_timeout_ms_min=broker["group.consumer.min.session.timeout.ms"],
        session_timeout_ms_max=broker["group.consumer.max.session.timeout.ms"],
        heartbeat_interval_ms=broker["group.consumer.heartbeat.interval.ms"],
        heartbeat_interval_ms_min=broker["group.consumer.min.heartbeat.interval.ms"],
        heartbeat_interval_ms_max=broker["group.consumer.max.heartbeat.interval.ms"],
        assignment_interval_ms=broker["group.consumer.assignment.interval.ms"],
        assignment_interval_ms_min=broker["group.consumer.min.assignment.interval.ms"],
        assignment_interval_ms_max=broker["group.consumer.max.assignment.interval.ms"],
        members_max=broker["group.consumer.max.size"],
        assignors=tuple(broker["group.consumer.assignors"]) or ConsumerLimits().assignors,
        migration_policy=MigrationPolicy(broker["group.consumer.migration.policy"]),
        regex_refresh_interval_ms=broker["group.consumer.regex.refresh.interval.ms"],
    )
