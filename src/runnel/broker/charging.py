"""What one request costs its client, and the silence that it earns.

A `Charge` exists only for requests of clients that have a quota. Handlers tell it what they do (bytes produced, bytes
to send, partitions changed); the time that the event loop spends on the request it takes itself. What exceeds a quota
mutes the connection at once, and the reply, which is never held back, says for how long (KIP-219).
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runnel.core.quotas import UNLIMITED, ClientSensors
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.broker.connection import Connection
    from runnel.services.quotas import QuotaService

PERCENT_PER_NS = 100 / 1_000_000_000
"""A request quota is a percentage of one thread's time; here that thread is the event loop."""

Result = TypeVar("Result")


def charge_for(quotas: QuotaService, connection: Connection, client_id: str | None, size_bytes: int) -> Charge | None:
    """None where this client has no quota of any kind."""
    now_ms = quotas.now_ms()
    sensors = quotas.client(connection.principal, client_id, now_ms)
    return None if sensors is UNLIMITED else Charge(quotas, sensors, connection, size_bytes, now_ms)


class Charge:
    """``_now_ms`` is when work on the request was last taken up: one turn of the loop is one moment."""

    __slots__ = (
        "_began_ns",
        "_connection",
        "_now_ms",
        "_quotas",
        "_sensors",
        "_settled",
        "_size_bytes",
        "_spent_ns",
        "_until_ms",
    )

    def __init__(
        self, quotas: QuotaService, sensors: ClientSensors, connection: Connection, size_bytes: int, now_ms: int
    ) -> None:
        self._quotas = quotas
        self._sensors = sensors
        self._connection = connection
        self._size_bytes = size_bytes
        self._now_ms = now_ms
        self._until_ms = 0
        self._settled = False
        self._spent_ns = 0
        self._began_ns = quotas.now_ns() if sensors.request is not None else 0

    # --- what handlers tell -----------------------------------------------------------------------------------

    def produced(self) -> None:
        """The request's records are appended. Told then, not with the reply: later Produces may start meanwhile."""
        if self._sensors.produce is not None:
            self._throttle(self._sensors.produce.record(self._size_bytes, self._now_ms))

    def fetch_bytes_max(self, asked: int) -> int:
        """More than this at once would be throttled for certain, and a consumer would never get on."""
        sensor = self._sensors.fetch
        return asked if sensor is None else min(asked, int(sensor.most_in_window))

    def may_send(self, size_bytes: int) -> bool:
        """Whether these bytes may be fetched now. If not, they were not recorded: the reply is to be empty."""
        self.settle()
        sensor = self._sensors.fetch
        if sensor is not None:
            self._throttle(sensor.record(size_bytes, self._now_ms))
            if self._until_ms > self._now_ms:
                sensor.record_unchecked(-size_bytes, self._now_ms)
        return self._until_ms <= self._now_ms

    def sent_besides(self, size_bytes: int) -> None:
        """What went out around the bytes that were asked for."""
        if self._sensors.fetch is not None:
            self._sensors.fetch.record_unchecked(size_bytes, self._now_ms)

    def mutated(self, partitions: int, *, strict: bool) -> None:
        """Partitions are about to be made or deleted (KIP-599). Refusal where a client that knows it must wait."""
        sensor = self._sensors.mutation
        if sensor is None:
            return
        self._now_ms = self._quotas.now_ms()  # the controller asks, in a turn of its own
        if not strict:
            self._throttle(sensor.record(partitions, self._now_ms))
            return
        wait_ms = sensor.record_strictly(partitions, self._now_ms)
        if wait_ms:
            self._throttle(wait_ms)
            raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")

    def settle(self) -> int:
        """Charge the time spent so far, once, and answer throttle_time_ms for the reply."""
        if self._sensors.request is not None and not self._settled:
            self._settled = True
            self._throttle(self._sensors.request.record(self._spent_percent(), self._now_ms))
        return max(0, self._until_ms - self._now_ms) if self._until_ms else 0

    def _throttle(self, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._until_ms = max(self._until_ms, self._now_ms + throttle_ms)
            self._connection.mute(throttle_ms)

    # --- time -------------------------------------------------------------------------------------------------

    def take_up(self) -> None:
        """Work on the request goes on."""
        self._now_ms = self._quotas.now_ms()
        if self._sensors.request is not None:
            self._began_ns = self._quotas.now_ns()

    def put_down(self) -> None:
        """Work on the request stops for now."""
        if self._began_ns:
            self._spent_ns += self._quotas.now_ns() - self._began_ns
            self._began_ns = 0

    def _spent_percent(self) -> float:
        """The time spent since it was last asked for."""
        if self._began_ns:
            now_ns = self._quotas.now_ns()
            self._spent_ns += now_ns - self._began_ns
            self._began_ns = now_ns
        spent_ns, self._spent_ns = self._spent_ns, 0
        return spent_ns * PERCENT_PER_NS

    def finish(self) -> None:
        """The request is answered: what was spent since it was settled counts for the next one."""
        if self._sensors.request is not None:
            self._sensors.request.record_unchecked(self._spent_percent(), self._now_ms)


class Timed(Generic[Result]):
    """Awaits a coroutine on a charge: only the time in which it runs is counted, not that in which it waits."""

    def __init__(self, work: Coroutine[Any, Any, Result], charge: Charge) -> None:
        self._work = work
        self._charge = charge

    def __await__(self) -> Generator[Any, None, Result]:
        thrown: BaseException | None = None
        while True:
            self._charge.take_up()
            try:
                waits_for = self._work.send(None) if thrown is None else self._work.throw(thrown)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            finally:
                self._charge.put_down()
            thrown = None
            try:
                yield waits_for
            except BaseException as error:
                thrown = error
