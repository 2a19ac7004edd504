"""The whole broker inside this process: the same engine, on a free port, in a thread of its own.

    from runnel import Broker

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

Nothing is kept unless a data directory is given.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from runnel.broker.app import Application, address_text, new_event_loop
from runnel.broker.settings import Settings, load_settings
from runnel.core.metadata import NewTopic
from runnel.storage.files import Files
from runnel.wire import schemas
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

START_TIMEOUT_S = 30
CALL_TIMEOUT_S = 60

Result = TypeVar("Result")


class Broker:
    """A broker that lives as long as the ``with`` block (or from ``start`` to ``stop``)."""

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        listen: str = "127.0.0.1:0",
        configs: Mapping[str, str] | None = None,
        files: Files | None = None,
    ) -> None:
        """``files`` replaces the file layer, for example by ``runnel.testing.faults.FaultyFiles``."""
        place = {"memory": "true"} if data_dir is None else {"data-dir": str(data_dir)}
        self._settings: Settings = load_settings({**place, "listen": listen, **(configs or {})}, None, {})
        self._files = files
        self._application: Application | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._address: tuple[str, int] | None = None
        self._failure: BaseException | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port``, as every Kafka client takes it."""
        if self._address is None:
            raise RuntimeError("the broker is not running; use `with Broker() as broker:` or call start()")
        return address_text(*self._address)

    def start(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="runnel-broker", daemon=True)
        self._thread.start()
        if not started.wait(START_TIMEOUT_S):
            raise RuntimeError(f"the broker did not start within {START_TIMEOUT_S} s")
        if self._failure is not None:
            self._thread.join()
            self._thread = None
            raise self._failure
        return self

    def stop(self) -> None:
        """Drain, flush and stop; does nothing where it is not running."""
        if self._thread is None or self._loop is None or self._application is None:
            return
        self._loop.call_soon_threadsafe(self._application.stop)
        self._thread.join()
        self._thread = self._application = self._loop = self._address = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- conveniences for tests -------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Make a topic and answer its name; Refusal where that is not possible."""
        wanted = NewTopic(name, partitions, configs=dict(configs or {}))
        (result,) = self._call(self._running().node.topics.create([wanted], False))
        if result.code:
            raise Refusal(ErrorCode(result.code), result.message or "")
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its data; one that is not there is fine."""
        self._call(self._running().node.topics.delete([name]))

    def topics(self) -> list[str]:
        image = self._running().node.image
        return sorted(name for name, topic in image.topics.items() if not topic.internal)

    def reset(self) -> None:
        """Delete every topic and the offsets committed for it; groups themselves stay, without offsets."""
        self._call(self._running().node.topics.delete(self.topics()))

    def _running(self) -> Application:
        if self._application is None:
            raise RuntimeError("the broker is not running")
        return self._application

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        if self._loop is None:
            raise RuntimeError("the broker is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._main(started))

    async def _main(self, started: threading.Event) -> None:
        application = Application(self._settings, self._files)
        try:
            self._address = await application.start()
        except BaseException as error:
            self._failure = error
            started.set()
            return
        self._application, self._loop = application, asyncio.get_running_loop()
        # Where Hypothesis is installed, the schemas take seconds to import: no first request shall wait for that.
        schemas.load(ApiKey.API_VERSIONS, "request", 0)
        started.set()
        await application.run_until_stopped()
