"""The groups on one partition of `__consumer_offsets`: the group machine, its log, and who waits for its answers.

Decisions are pipelined: a turn of the machine is replayed at once, without an await between, and the records of all
turns of one turn of the event loop are appended as one batch. Answers leave when everything decided so far is on disk.
So no answer overtakes the record of what it tells, and one write and one fsync serve all commits that are in flight. A
log that fails ends the shard: whoever waits hears NOT_COORDINATOR, and the next request loads the groups anew from what
the log kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from runnel.core.groups import GroupLimits, GroupMachine, GroupRecord, Turn, decode_record, encode_record
from runnel.core.groups.records import Unread
from runnel.services.flusher import Flusher
from runnel.services.hosting import Host
from runnel.services.partition import Partition
from runnel.storage.errors import StorageError
from runnel.wire.errors import ErrorCode, Malformed, Refusal

log = logging.getLogger("runnel.groups")

Token = asyncio.Future[Any]
Answers = Sequence[tuple[Token, Any]]

BATCH_RECORDS_MAX = 1000


class GroupCodec:
    """Kafka's own records. One that does not parse was not written by a coordinator: it is skipped, loudly."""

    def encode(self, record: GroupRecord) -> tuple[bytes | None, bytes | None]:
        return encode_record(record)

    def decode(self, key: bytes | None, value: bytes | None) -> GroupRecord:
        try:
            return decode_record(key, value)
        except Malformed as error:
            log.warning("skipped a record: %s", error)
            return Unread(key or b"")


class GroupShard:
    def __init__(self, partition: Partition, limits: GroupLimits, flusher: Flusher, now_ms: Callable[[], int]) -> None:
        self.machine = GroupMachine(limits)
        self.partition = partition
        self.failure: Refusal | None = None
        self._now_ms = now_ms
        self._host: Host[GroupRecord] = Host(partition, GroupCodec(), self.machine.load, flusher, now_ms)
        self._loop = asyncio.get_running_loop()
        self._unwritten: list[GroupRecord] = []
        self._unanswered: list[tuple[Token, Any]] = []

    async def load(self) -> None:
        count = await self._host.load_off_loop()
        self.machine.loaded(self._now_ms())
        if count:
            log.info("%d groups loaded from %d records of %s", len(self.machine.groups), count, self._name)

    @property
    def _name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    # --- turns ------------------------------------------------------------------------------------------------

    def ask(self, decide: Callable[[Token, int], Turn]) -> Token:
        """Let the machine decide on a request. The future is its reply: committed, or a Refusal."""
        token: Token = self._loop.create_future()
        if self.failure is not None:
            token.set_exception(self.failure)
            return token
        turn = decide(token, self._now_ms())
        if turn.reply is not None:
            turn.answers.append((token, turn.reply))
        self.carry_out(turn)
        return token

    def ask_now(self, decide: Callable[[int], Turn]) -> Any:
        """As `ask`, for requests that never wait for others: the reply itself where nothing has to be logged for it
        and all that it may tell of is on disk, else the future."""
        if self.failure is None:
            turn = decide(self._now_ms())
            if not (turn.records or turn.answers or self._unwritten) and self._host.is_settled:
                return turn.reply
        else:
            turn = Turn()
        return self.ask(lambda _, __: turn)

    def carry_out(self, turn: Turn) -> None:
        """Replay and log what was decided; the answers follow when it is safe."""
        if turn.records:
            self.machine.replay(turn.records)
            self._unwritten += turn.records
            if len(self._unwritten) >= BATCH_RECORDS_MAX:
                self._unanswered += turn.answers
                self._write()
                return
            if len(self._unwritten) == len(turn.records):
                self._loop.call_soon(self._write)
        if self._unwritten:
            self._unanswered += turn.answers
        elif turn.answers:
            self._answer_when_settled(turn.answers)

    def _write(self) -> None:
        """Append what was decided since the last time, as one batch."""
        records, answers = self._unwritten, self._unanswered
        if not records:
            return
        self._unwritten, self._unanswered = [], []
        try:
            self._host.append(records)
        except (Refusal, StorageError, OSError) as error:
            self.fail(error, answers)
            return
        if answers:
            self._answer_when_settled(answers)

    def _answer_when_settled(self, answers: Answers) -> None:
        if self._host.is_settled:
            _deliver(answers)
        else:
            self._host.settled().add_done_callback(lambda done: self._settled(answers, done))

    def _settled(self, answers: Answers, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self.fail(error, answers)
        else:
            _deliver(answers)

    async def settled(self) -> None:
        """Return when all that a reader of the machine sees is on disk. Refusal where it never will be."""
        self._write()
        if self.failure is not None:
            raise self.failure
        if not self._host.is_settled:
            try:
                await self._host.settled()
            except (StorageError, OSError) as error:
                raise self.fail(error) from error

    # --- the end ----------------------------------------------------------------------------------------------

    def fail(self, error: BaseException, answers: Answers = ()) -> Refusal:
        """Nothing that this shard knows can be relied on any more: everybody asks again."""
        if self.failure is None:
            log.error("the groups of %s are given up: %s", self._name, error)
            self.failure = Refusal(ErrorCode.NOT_COORDINATOR, f"the group log failed: {error}")
            self._refuse_waiting(self.failure)
        unanswered, self._unanswered, self._unwritten = self._unanswered, [], []
        for token, _ in (*answers, *unanswered):
            _refuse(token, self.failure)
        return self.failure

    def close(self) -> None:
        """The broker stops: whoever waits in a rebalance looks for another coordinator."""
        self._write()
        if self.failure is None:
            self.failure = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
            self._refuse_waiting(self.failure)

    def _refuse_waiting(self, refusal: Refusal) -> None:
        for token in self.machine.waiting():
            _refuse(token, refusal)


def _deliver(answers: Answers) -> None:
    for token, reply in answers:
        if not token.done():  # the client may have gone
            token.set_result(reply)


def _refuse(token: Token, refusal: Refusal) -> None:
    if not token.done():
        token.set_exception(refusal)
