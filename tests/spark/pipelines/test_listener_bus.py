"""A listener is removed while events come: all of them arrive, and nobody waits for ever. The server is a stub."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyspark.sql.connect.proto as protocol
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.streaming.query import StreamingQueryManager

from runnel.spark.pipelines.figures import Figures
from runnel.spark.pipelines.flow_progress import FlowProgress
from runnel.spark.pipelines.listener_bus import ListenerBus

if TYPE_CHECKING:
    from runnel.spark.pipelines import PipelineSession

DEADLINE_S = 60.0
TERMINATED = {"id": "0" * 32, "runId": "0" * 32, "exception": None, "errorClassOnException": None}


class Server:
    """Has an event to tell when it is asked to end them; then it ends, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.client = self
        self._failure = failure
        self._is_removed = threading.Event()

    def execute_command_as_iterator(self, _: Any) -> Iterator[dict[str, Any]]:
        yield self._result(listener_bus_listener_added=True)
        self._is_removed.wait(DEADLINE_S)
        event = protocol.StreamingQueryListenerEvent(
            event_json=json.dumps(TERMINATED),
            event_type=protocol.StreamingQueryEventType.QUERY_TERMINATED_EVENT,
        )
        yield self._result(events=[event])
        if self._failure is not None:
            raise self._failure

    def execute_command(self, _: Any) -> None:
        self._is_removed.set()

    def _result(self, **fields: Any) -> dict[str, Any]:
        return {"streaming_query_listener_events_result": protocol.StreamingQueryListenerEventsResult(**fields)}


class Counting(Figures):
    def __init__(self) -> None:
        super().__init__(self._ignore)
        self.ended = 0

    def _ignore(self, _: FlowProgress) -> None: ...

    def onQueryTerminated(self, event: Any) -> None:
        self.ended += 1


def removed(bus: ListenerBus, listener: Figures) -> bool:
    thread = threading.Thread(target=bus.remove, args=(listener,), daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    if thread.is_alive():
        bus._lock.release()  # else this process would not end either
        return False
    return True


def bus_of(server: Any) -> ListenerBus:
    return ListenerBus(StreamingQueryManager(server))


def test_events_that_come_while_a_listener_is_removed_arrive() -> None:
    bus, listener = bus_of(Server()), Counting()
    bus.append(listener)
    assert removed(bus, listener)
    assert (listener.ended, bus._listener_bus, bus._execution_thread) == (1, [], None)


def test_a_listener_is_added_again_after_that() -> None:
    bus = bus_of(Server())
    for _ in range(2):
        listener = Counting()
        bus.append(listener)
        assert removed(bus, listener)
        assert listener.ended == 1


@pytest.mark.filterwarnings("ignore:StreamingQueryListenerBus Handler thread received exception")
def test_a_server_that_fails_meanwhile_is_not_waited_for() -> None:
    bus, listener = bus_of(Server(PySparkException("gone"))), Counting()
    bus.append(listener)
    assert removed(bus, listener)
    assert (bus._listener_bus, bus._execution_thread) == ([], None)


def test_one_of_several_is_removed_at_once() -> None:
    bus, first, second = bus_of(Server()), Counting(), Counting()
    bus.append(first)
    bus.append(second)
    assert removed(bus, first)
    assert bus._listener_bus == [second]
    assert removed(bus, second)
    assert (first.ended, second.ended) == (0, 1)


def test_sessions_have_it(open_project: Any, write_project: Any) -> None:
    session: PipelineSession = open_project(write_project({"one.sql": "CREATE MATERIALIZED VIEW b AS SELECT 1 AS x;"}))
    assert type(session.spark.streams._sqlb) is ListenerBus
