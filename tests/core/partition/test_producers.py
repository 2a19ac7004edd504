"""Idempotent producers: sequences, duplicates, epochs, wrap-around, expiry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.core.partition.producers import BATCHES_KEPT, Duplicate, ProducerStates, SequenceRefused
from runnel.wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from runnel.wire.errors import ErrorCode

SEQUENCE_MAX = 0x7FFF_FFFF


def header(sequence: int, records: int = 1, *, epoch: int = 0, producer: int = 1, attributes: int = 0) -> BatchHeader:
    return BatchHeader(0, 100, 0, 2, 0, attributes, records - 1, 50, 60, producer, epoch, sequence, records)


def code(verdict: object) -> ErrorCode | None:
    return verdict.code if isinstance(verdict, SequenceRefused) else None


def states_after(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    offset = 100
    for each in headers:
        assert states.check(each) is None
        states.update(each, offset, now_ms=1000)
        offset += each.record_count
    return states


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert ProducerStates().check(header(77)) is None


def test_the_next_sequence_is_accepted_and_a_gap_is_not() -> None:
    states = states_after(header(0, 3))
    assert states.check(header(3)) is None
    assert code(states.check(header(4))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("back", range(BATCHES_KEPT))
def test_the_last_five_batches_are_known_again(back: int) -> None:
    sent = [header(2 * number, 2) for number in range(7)]
    states = states_after(*sent)
    again = 6 - back
    assert states.check(sent[again]) == Duplicate(100 + 2 * again, 101 + 2 * again, 60)


def test_an_older_batch_is_out_of_order() -> None:
    sent = [header(number) for number in range(6)]
    assert code(states_after(*sent).check(sent[0])) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_overlaps_is_not_a_duplicate() -> None:
    states = states_after(header(0, 3))
    assert code(states.check(header(0, 2))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero() -> None:
    states = states_after(header(SEQUENCE_MAX - 1, 2))
    assert states.check(header(0)) is None
    states = states_after(header(SEQUENCE_MAX, 3))
    assert states.check(header(2)) is None
    assert states.check(header(SEQUENCE_MAX, 3)) == Duplicate(100, 102, 60)


def test_epochs_fence_the_old_and_restart_the_new() -> None:
    states = states_after(header(0, epoch=2))
    assert code(states.check(header(1, epoch=1))) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(states.check(header(1, epoch=3))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=3)) is None
    states.update(header(0, epoch=3), 200, now_ms=1)
    entry = states.get(1)
    assert entry is not None
    assert (entry.epoch, len(entry.batches), entry.last_offset) == (3, 1, 200)


def test_a_batch_of_a_producer_without_a_sequence_is_invalid() -> None:
    assert code(ProducerStates().check(header(-1))) == ErrorCode.INVALID_RECORD


def test_transactions_begin_with_a_batch_and_end_with_a_marker() -> None:
    states = states_after(header(0, attributes=TRANSACTIONAL_BIT))
    entry = states.get(1)
    assert entry is not None
    assert entry.transaction_first_offset == 100
    assert states.expire(10**12, 1) == 0, "a producer inside a transaction never expires"
    marker = header(-1, attributes=TRANSACTIONAL_BIT | CONTROL_BIT)
    assert states.check(marker) is None
    states.update(marker, 101, now_ms=2)
    assert entry.transaction_first_offset == -1
    assert states.check(header(1)) is None


def test_producers_expire_by_when_they_were_last_seen() -> None:
    states = states_after(header(0, producer=1), header(0, producer=2))
    states.update(header(1, producer=2), 102, now_ms=5000)
    assert states.expire(5999, 5000) == 0
    assert states.expire(6000, 5000) == 1
    assert [producer_id for producer_id, _ in states] == [2]


def test_time_that_goes_back_does_not_age_a_producer() -> None:
    states = states_after(header(0))
    states.update(header(1), 101, now_ms=10)
    assert states.expire(1500, 1000) == 0


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=30))
def test_a_client_that_retries_never_appends_twice(steps: list[tuple[int, bool]]) -> None:
    """Every batch may be sent again (its ack was lost); the log must end up with each exactly once."""
    states, log, sequence = ProducerStates(), [], 0
    for records, retry in steps:
        batch = header(sequence, records)
        assert states.check(batch) is None
        states.update(batch, len(log), now_ms=1)
        log += range(sequence, sequence + records)
        sequence += records
        if retry:
            assert isinstance(states.check(batch), Duplicate)
    assert log == list(range(sequence))
