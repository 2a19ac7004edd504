"""The producers that a partition remembers (KIP-664): who may still have a duplicate or an open transaction in it."""

from __future__ import annotations

from typing import NamedTuple

from runnel.services.partition import Partition


class ActiveProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


def active_producers(partition: Partition) -> list[ActiveProducer]:
    return [
        ActiveProducer(
            producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.batches[-1].timestamp if entry.batches else entry.last_seen_ms,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        for producer_id, entry in partition.log.producers
    ]
