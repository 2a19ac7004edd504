"""Fetch sessions (KIP-227): after a full fetch only changes are asked for and answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clients.protocol.calls import FETCH, fetch_body, fetch_topic, produce, topic_fields
from harness.batches import decode_values, encode_batch
from harness.raw import RawConnection

NewTopic = Callable[..., str]
FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR = 70, 71, 106


class Session:
    """The client's side of one fetch session."""

    def __init__(self, raw: RawConnection, version: int) -> None:
        self.raw = raw
        self.version = version
        self.session_id = 0
        self.epoch = 0

    def fetch(self, topics: list[dict[str, Any]], forgotten: list[dict[str, Any]] | None = None) -> Any:
        body = fetch_body(topics, session=(self.session_id, self.epoch), forgotten=forgotten)
        reply = self.raw.request(FETCH, self.version, body)
        if reply.error_code == 0:
            self.session_id, self.epoch = reply.session_id, self.epoch + 1
        return reply

    def where(self, topic: str) -> dict[str, Any]:
        return topic_fields(self.raw, topic, by_id=self.version >= 13, field="topic")


def values(reply: Any) -> list[bytes | None]:
    parts = [part for topic in reply.responses for part in topic.partitions]
    return [value for part in parts for _, value in decode_values(part.records)]


@pytest.fixture(params=[7, 11, 12, 13, 17])
def session(raw: RawConnection, request: pytest.FixtureRequest) -> Session:
    return Session(raw, request.param)


def test_incremental_fetch(session: Session, raw: RawConnection, new_topic: NewTopic) -> None:
    first, second = new_topic(), new_topic()
    produce(raw, first, encode_batch([b"a"]))
    full = session.fetch([fetch_topic(session.where(first), 0), fetch_topic(session.where(second), 0)])
    assert session.session_id != 0
    assert len(full.responses) == 2
    assert values(full) == [b"a"]

    moved = session.fetch([fetch_topic(session.where(first), 1)])
    assert list(moved.responses) == []  # nothing changed: nothing is listed

    produce(raw, second, encode_batch([b"b"]))
    news = session.fetch([])
    assert len(news.responses) == 1
    assert values(news) == [b"b"]


def test_partitions_may_be_added_and_forgotten(session: Session, raw: RawConnection, new_topic: NewTopic) -> None:
    first, second = new_topic(), new_topic()
    session.fetch([fetch_topic(session.where(first), 0)])
    added = session.fetch([fetch_topic(session.where(second), 0)])
    assert len(added.responses) == 1  # new to the session, so it is listed even though empty
    session.fetch([], forgotten=[session.where(first) | {"partitions": [0]}])
    produce(raw, first, encode_batch([b"unseen"]))
    produce(raw, second, encode_batch([b"seen"]))
    assert values(session.fetch([])) == [b"seen"]


def test_a_wrong_epoch(session: Session, new_topic: NewTopic) -> None:
    session.fetch([fetch_topic(session.where(new_topic()), 0)])
    session.epoch += 5
    assert session.fetch([]).error_code == INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session(session: Session) -> None:
    session.session_id, session.epoch = 123_456_789, 1
    assert session.fetch([]).error_code == FETCH_SESSION_ID_NOT_FOUND


def test_a_session_is_closed_by_the_client(session: Session, new_topic: NewTopic) -> None:
    """Epoch -1 with an id ends the session; epoch 0 with an id replaces it."""
    topic = new_topic()
    session.fetch([fetch_topic(session.where(topic), 0)])
    old_id, session.epoch = session.session_id, -1
    assert session.fetch([fetch_topic(session.where(topic), 0)]).session_id == 0
    session.session_id, session.epoch = old_id, 1
    assert session.fetch([]).error_code == FETCH_SESSION_ID_NOT_FOUND


def test_a_session_may_start_over(session: Session, raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce(raw, topic, encode_batch([b"a"]))
    session.fetch([fetch_topic(session.where(topic), 0)])
    session.epoch = 0
    again = session.fetch([fetch_topic(session.where(topic), 0)])
    assert again.error_code == 0
    assert values(again) == [b"a"]


def test_sessions_do_not_mix(raw: RawConnection, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with RawConnection(bootstrap) as other:
        first, second = Session(raw, 12), Session(other, 12)
        first.fetch([fetch_topic({"topic": topic}, 0)])
        second.fetch([fetch_topic({"topic": topic}, 0)])
        assert first.session_id != second.session_id
        produce(raw, topic, encode_batch([b"a"]))
        assert values(first.fetch([])) == values(second.fetch([])) == [b"a"]


def test_versions_may_not_change_within_a_session(raw: RawConnection, new_topic: NewTopic) -> None:
    """Names and ids do not mix in one session (KIP-516)."""
    topic = new_topic()
    session = Session(raw, 12)
    session.fetch([fetch_topic(session.where(topic), 0)])
    session.version = 13
    assert session.fetch([]).error_code == FETCH_SESSION_TOPIC_ID_ERROR
