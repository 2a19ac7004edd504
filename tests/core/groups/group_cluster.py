"""A group machine with its log beside it, as the tests drive it: decide, log, replay; tokens are numbers."""

from __future__ import annotations

import itertools
from typing import Any

from runnel.core.groups import (
    Commit,
    GroupLimits,
    GroupMachine,
    GroupRecord,
    Join,
    JoinReply,
    LeaveReply,
    Leaving,
    NewOffset,
    Sync,
    SyncReply,
    Turn,
    decode_record,
    encode_record,
)
from runnel.wire.errors import ErrorCode

RANGE = (("range", b"\0\0\0\0\0\0\0\0\0\0"),)


class Coordinator:
    """Time moves only by `advance`. Answers to parked requests are found under their tokens."""

    def __init__(self, **limits: Any) -> None:
        self.limits = GroupLimits(**limits)
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.answers: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self.machine = GroupMachine(self.limits)
        self.machine.loaded(self.now_ms)

    def carry_out(self, turn: Turn) -> Any:
        self.log += [encode_record(record) for record in turn.records]
        self.machine.replay(turn.records)
        for token, reply in turn.answers:
            assert token not in self.answers, "a request was answered twice"
            self.answers[token] = reply
        return turn.reply

    def restart(self) -> None:
        """A crash: only the log survives."""
        self.machine = GroupMachine(self.limits)
        self.machine.load(self.records())
        self.machine.loaded(self.now_ms)

    def records(self) -> list[GroupRecord]:
        return [decode_record(key, value) for key, value in self.log]

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with a tick whenever one is due."""
        end_ms = self.now_ms + milliseconds
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.carry_out(self.machine.tick(self.now_ms))
        self.now_ms = end_ms

    # --- requests ---------------------------------------------------------------------------------------------

    def start_join(self, member_id: str = "", instance_id: str | None = None, **options: Any) -> tuple[int, Any]:
        """The token and the reply, None while parked."""
        token = next(self._numbers)
        values: dict[str, Any] = {
            "group_id": "g",
            "protocol_type": "consumer",
            "protocols": RANGE,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "new_member_id": f"m{token}",
        }
        join = Join(member_id=member_id, instance_id=instance_id, **{**values, **options})
        reply = self.carry_out(self.machine.join(join, token, self.now_ms))
        if reply is not None:
            self.answers[token] = reply
        return token, self.answers.get(token)

    def join(self, member_id: str = "", instance_id: str | None = None, **options: Any) -> JoinReply:
        """A join that must be answered at once."""
        _, reply = self.start_join(member_id, instance_id, **options)
        assert isinstance(reply, JoinReply)
        return reply

    def start_sync(self, joined: JoinReply, assignments: dict[str, bytes] | None = None, **options: Any) -> int:
        token = next(self._numbers)
        values: dict[str, Any] = {"instance_id": None, "protocol_type": None, "protocol": None, **options}
        sync = Sync("g", joined.generation, joined.member_id, assignments=assignments or {}, **values)
        reply = self.carry_out(self.machine.sync(sync, token, self.now_ms))
        if reply is not None:
            self.answers[token] = reply
        return token

    def sync(self, joined: JoinReply, assignments: dict[str, bytes] | None = None, **options: Any) -> SyncReply:
        reply = self.answers[self.start_sync(joined, assignments, **options)]
        assert isinstance(reply, SyncReply)
        return reply

    def heartbeat(self, joined: JoinReply, instance_id: str | None = None) -> ErrorCode:
        return self.machine.heartbeat("g", joined.generation, joined.member_id, instance_id, self.now_ms)

    def leave(self, *leaving: Leaving) -> LeaveReply:
        reply = self.carry_out(self.machine.leave("g", leaving, self.now_ms))
        assert isinstance(reply, LeaveReply)
        return reply

    def commit(self, *offsets: NewOffset, joined: JoinReply | None = None, **options: Any) -> list[ErrorCode]:
        who = (-1, "") if joined is None else (joined.generation, joined.member_id)
        values = {"instance_id": None, **options}
        commit = Commit(values.pop("group_id", "g"), *who, offsets=offsets, **values)
        codes: list[ErrorCode] = self.carry_out(self.machine.commit(commit, self.now_ms))
        return codes

    def committed(self, group_id: str = "g") -> dict[tuple[str, int], int]:
        return {key: found.offset for key, found in self.machine.offsets_of(group_id).items()}

    def state(self, group_id: str = "g") -> str:
        states = {row.group_id: row.state for row in self.machine.listing()}
        return states.get(group_id, "none")

    # --- whole rounds -----------------------------------------------------------------------------------------

    def stable_pair(self) -> tuple[JoinReply, JoinReply]:
        """Leader and follower of a stable group in generation 2."""
        first = self.join()
        self.sync(first, {first.member_id: b"all"})
        token, _ = self.start_join()
        leader = self.join(first.member_id)
        follower = self.answers[token]
        assert isinstance(follower, JoinReply)
        self.sync(leader, {leader.member_id: b"a", follower.member_id: b"b"})
        assert self.sync(follower).assignment == b"b"
        return leader, follower
