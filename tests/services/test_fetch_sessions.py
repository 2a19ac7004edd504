"""Incremental fetch sessions: what is remembered, what is news, who has to go."""

from __future__ import annotations

import uuid

import pytest

from runnel.services.fetch_sessions import EPOCH_MAX, EVICTION_MS, FetchSessions, TopicPartition, Wanted
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.fetch import FetchPartition, FetchPartitionReply, FetchRequest
from runnel.wire.types import ZERO_UUID


def request(session_id: int, epoch: int) -> FetchRequest:
    return FetchRequest(-1, -1, 0, 0, 0, 0, session_id, epoch, [], [], "", None)


def key(index: int) -> TopicPartition:
    return TopicPartition("t", ZERO_UUID, index)


def test_a_session_goes_on_epoch_by_epoch() -> None:
    sessions = FetchSessions(10)
    session = sessions.open(5, False, 0)
    assert session is not None
    assert session.epoch == 1
    assert sessions.resume(request(5, 1), False, 1) is session
    assert sessions.resume(request(5, 2), False, 2) is session
    with pytest.raises(Refusal) as raised:
        sessions.resume(request(5, 2), False, 3)
    assert raised.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_wraps_to_one() -> None:
    sessions = FetchSessions(10)
    session = sessions.open(5, False, 0)
    assert session is not None
    session.epoch = EPOCH_MAX
    sessions.resume(request(5, EPOCH_MAX), False, 1)
    assert session.epoch == 1


def test_unknown_and_mixed_sessions_are_refused() -> None:
    sessions = FetchSessions(10)
    with pytest.raises(Refusal) as raised:
        sessions.resume(request(9, 1), False, 0)
    assert raised.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    sessions.open(5, False, 0)
    with pytest.raises(Refusal) as raised:
        sessions.resume(request(5, 1), True, 0)
    assert raised.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert len(sessions) == 1, "as in Kafka, the session may go on as it began"


def test_a_newcomer_takes_the_place_of_the_longest_silent() -> None:
    sessions = FetchSessions(2)
    sessions.open(1, False, 0)
    sessions.open(2, False, 10)
    assert sessions.open(3, False, 20) is None  # nobody has been silent for long enough
    sessions.resume(request(1, 1), False, 30)
    assert sessions.open(3, False, 10 + EVICTION_MS) is not None
    with pytest.raises(Refusal):
        sessions.resume(request(2, 1), False, 10 + EVICTION_MS)
    sessions.resume(request(1, 2), False, 10 + EVICTION_MS)


def test_partitions_come_and_go() -> None:
    session = FetchSessions(1).open(1, False, 0)
    assert session is not None
    session.update([(key(0), FetchPartition(0, 5, 100)), (key(1), FetchPartition(1, 6, 100))])
    session.update([(key(0), FetchPartition(0, 7, 100))])
    session.forget([key(1)])
    assert [(k.partition, w.fetch.fetch_offset) for k, w in session.wanted.items()] == [(0, 7)]


def test_what_is_news() -> None:
    wanted = Wanted(FetchPartition(0, 0, 100))
    first = FetchPartitionReply(0, 0, 10, 10, 0)
    assert wanted.has_news(first, False)
    assert not wanted.has_news(first, False)
    assert wanted.has_news(first, True)
    assert wanted.has_news(FetchPartitionReply(0, 0, 11, 11, 0), False)
    assert wanted.has_news(FetchPartitionReply(0, 0, 11, 11, 3), False)
    error = FetchPartitionReply(0, 1, -1, -1, -1)
    assert wanted.has_news(error, False)
    assert wanted.has_news(error, False)
    assert wanted.has_news(FetchPartitionReply(0, 0, 11, 11, 3), False)


def test_a_session_by_id_knows_a_partition_whatever_its_name_is_now() -> None:
    session = FetchSessions(1).open(1, True, 0)
    assert session is not None
    topic_id = uuid.UUID(int=7)
    session.update([(TopicPartition("t", topic_id, 0), FetchPartition(0, 5, 100))])
    session.update([(TopicPartition("", topic_id, 0), FetchPartition(0, 6, 100))])  # deleted meanwhile: no name
    assert [wanted.fetch.fetch_offset for wanted in session.wanted.values()] == [6]
    session.forget([TopicPartition("", topic_id, 0)])
    assert not session.wanted
