"""Runs a deterministic state machine on a log: decide → append → commit → replay → reply.

One component hosts every machine of the broker: cluster metadata and groups now, transactions later. The machine
decides without I/O; its records are appended as one batch and made durable; only then are they replayed and the reply
leaves. A decision that needs no record (a read, a refusal) is answered at once.

``submit`` takes one decision after the other, an fsync each. A machine with many decisions in flight (groups) pipelines
instead: it appends and replays at once, later decisions build on that, and every reply waits for ``settled``. One fsync
then serves all; if the log fails, such a machine is thrown away and loaded again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from runnel.services.flusher import Flusher
from runnel.services.partition import Partition
from runnel.wire.batch import decode_records, encode_batch, iterate_headers, read_header

READ_BYTES_MAX = 4 * 1024 * 1024

Record = TypeVar("Record")
Decided = TypeVar("Decided", covariant=True)


class Decision(Protocol[Decided]):
    """What a machine decided: records to log, and the reply to give once they are committed."""

    @property
    def records(self) -> Sequence[Decided]: ...
    @property
    def reply(self) -> Any: ...


class Codec(Protocol[Record]):
    """How a machine's records look as the key and value of a log record."""

    def encode(self, record: Record) -> tuple[bytes | None, bytes | None]: ...
    def decode(self, key: bytes | None, value: bytes | None) -> Record: ...


class Host(Generic[Record]):
    """One machine on one partition. ``replay`` is called with the records of one committed batch."""

    def __init__(
        self,
        partition: Partition,
        codec: Codec[Record],
        replay: Callable[[Sequence[Record]], None],
        flusher: Flusher,
        now_ms: Callable[[], int],
    ) -> None:
        self._partition = partition
        self._codec = codec
        self._replay = replay
        self._flusher = flusher
        self._now_ms = now_ms
        self._turn = asyncio.Lock()
        self._appended_offset = 0

    def load(self) -> int:
        """Replay the whole log (blocking, at start-up); how many records there were."""
        log = self._partition.log
        offset, count = log.log_start_offset, 0
        while offset < log.end_offset:
            plan = log.plan_read(offset, READ_BYTES_MAX, log.end_offset, min_one=True)
            count += self._replay_bytes(plan.read)
            offset = plan.next_offset
        self._appended_offset = offset  # another life may have appended it, and not seen it on disk
        return count

    async def load_off_loop(self) -> int:
        """Replay the whole log in threads, before the machine is in use; how many records there were."""
        log = self._partition.log
        offset, count = log.log_start_offset, 0
        while offset < log.end_offset:
            plan = log.plan_read(offset, READ_BYTES_MAX, log.end_offset, min_one=True)
            count += await asyncio.to_thread(self._replay_bytes, plan.read)
            offset = plan.next_offset
        self._appended_offset = offset  # another life may have appended it, and not seen it on disk
        return count

    def _replay_bytes(self, read: Callable[[], bytes]) -> int:
        data, count = read(), 0
        for position, header in iterate_headers(data):
            if not header.is_control:
                records = [self._codec.decode(r.key, r.value) for r in decode_records(data, position)]
                self._replay(records)
                count += len(records)
        return count

    async def submit(self, decide: Callable[[int], Decision[Record]]) -> Any:
        """Let the machine decide and, if that makes records, answer when they are committed and replayed."""
        async with self._turn:
            decision = decide(self._now_ms())
            if decision.records:
                await self._commit(decision.records)
                self._replay(decision.records)
            return decision.reply

    async def _commit(self, records: Sequence[Record]) -> None:
        self.append(records)
        await self.settled()

    # --- pipelined --------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        """Write the records of one decision as one batch. Whoever calls this replays them itself."""
        now_ms = self._now_ms()
        rows = [(now_ms, *self._codec.encode(record), ()) for record in records]
        batch = encode_batch(rows)
        result = self._partition.log.append(memoryview(batch), read_header(batch), self._partition.leader_epoch, now_ms)
        self._partition.appended(len(batch))
        self._appended_offset = result.last_offset + 1

    @property
    def is_settled(self) -> bool:
        """Whether everything that was appended is on disk."""
        return self._partition.log.flushed_offset >= self._appended_offset

    def settled(self) -> asyncio.Future[None]:
        """Done when everything that was appended so far is on disk."""
        return self._flusher.flushed(self._partition, self._appended_offset)
