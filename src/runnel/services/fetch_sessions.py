"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only what changes.

A session remembers what the client wants from each partition and what it was last told; a reply of a session leaves
out partitions that have nothing new. The number of sessions is bounded; a newcomer may take the place of the session
that has been silent for longest, if it was silent for long enough, and otherwise fetches without a session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.fetch import FetchPartition, FetchPartitionReply, FetchRequest

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EPOCH_MAX = 2**31 - 1
EVICTION_MS = 120_000


class TopicPartition(NamedTuple):
    """A partition as the client named it: by name, or by id and then with the name that we know (or '')."""

    topic: str
    topic_id: UUID
    partition: int


def session_key(key: TopicPartition) -> TopicPartition:
    """By id the name is no part of it: names come and go."""
    return key._replace(topic="") if key.topic_id.int else key


class Wanted:
    """What a session wants from one partition, and what it has been told of it."""

    __slots__ = ("fetch", "high_watermark", "log_start_offset")

    def __init__(self, fetch: FetchPartition) -> None:
        self.fetch = fetch
        self.high_watermark = -2
        self.log_start_offset = -2

    def has_news(self, reply: FetchPartitionReply, has_records: bool) -> bool:
        """Whether this reply tells the client anything; remembers what it tells."""
        news = (
            has_records
            or reply.error_code != 0
            or reply.diverging_epoch is not None
            or reply.high_watermark != self.high_watermark
            or reply.log_start_offset != self.log_start_offset
        )
        if reply.error_code:
            self.high_watermark = -2  # an error is repeated until it is gone, and its end is news too
        else:
            self.high_watermark, self.log_start_offset = reply.high_watermark, reply.log_start_offset
        return news


class FetchSession:
    __slots__ = ("by_id", "epoch", "session_id", "used_at_ms", "wanted")

    def __init__(self, session_id: int, by_id: bool) -> None:
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH
        self.by_id = by_id
        self.used_at_ms = 0
        self.wanted: OrderedDict[TopicPartition, Wanted] = OrderedDict()

    def update(self, partitions: Iterable[tuple[TopicPartition, FetchPartition]]) -> None:
        for key, fetch in partitions:
            known = self.wanted.get(session_key(key))
            if known is None:
                self.wanted[session_key(key)] = Wanted(fetch)
            else:
                known.fetch = fetch

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            self.wanted.pop(session_key(key), None)

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1


class FetchSessions:
    def __init__(self, slots_max: int) -> None:
        self._slots_max = slots_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the longest silent first

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(self, request: FetchRequest, by_id: bool, now_ms: int) -> FetchSession:
        """The session that an incremental request continues."""
        session = self._sessions.get(request.session_id)
        if session is None:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {request.session_id}")
        if session.epoch != request.session_epoch:
            raise Refusal(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {request.session_id} is at epoch {session.epoch}, not {request.session_epoch}",
            )
        if session.by_id != by_id:
            raise Refusal(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session changed between topic names and topic ids"
            )
        session.used_at_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        session.advance()
        return session

    def open(self, session_id: int, by_id: bool, now_ms: int) -> FetchSession | None:
        """A new session under this (random) id, or None when there is no room."""
        if session_id in self._sessions or session_id == NO_SESSION or not self._make_room(now_ms):
            return None
        session = FetchSession(session_id, by_id)
        session.used_at_ms = now_ms
        session.advance()
        self._sessions[session_id] = session
        return session

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def _make_room(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots_max:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.used_at_ms < EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
        return True
