"""A running broker, assembled: start-up, main loop, shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable

from runnel.broker.apis import APIS
from runnel.broker.buffers import keep_freed_memory
from runnel.broker.listener import Listener, ListenerLimits
from runnel.broker.router import Router
from runnel.broker.settings import Settings
from runnel.services.node import DEFAULT_NODE_ID, Node
from runnel.storage.errors import StorageError
from runnel.storage.files import Files

log = logging.getLogger("runnel")

DRAIN_GRACE_S = 10.0
RESERVED_DESCRIPTORS = 64  # sockets of the loop, logging, the lock, files being swept
LOG_HANDLES_MAX = 4096
GC_THRESHOLD = 50_000
"""Requests leave no reference cycles behind; the default threshold has the collector walk the metadata for nothing."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on this platform: the standard loop serves the same, slower
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Application:
    """One broker. ``start`` → ``run_until_stopped``; ``stop`` may be called from a signal handler."""

    def __init__(self, settings: Settings, files: Files | None = None) -> None:
        self.settings = settings
        self._files = files
        self._stopping = asyncio.Event()
        descriptors = raise_descriptor_limit()
        self._log_handles_max = min(LOG_HANDLES_MAX, max(64, descriptors // 4))
        self._connections_room = max(16, descriptors - self._log_handles_max - RESERVED_DESCRIPTORS)

    async def start(self) -> tuple[str, int]:
        """Recover, listen, and answer the address on which clients are served."""
        self.node = await Node.start(self.settings.data_dir, self._configs(), self._log_handles_max, self._files)
        try:
            router = Router(APIS, self.node)
            self.listener = Listener(router, self._limits(), self.settings.advertise)
            self.node.configs_changed = self._take_limits
            return await self.listener.start(*self.settings.listen)
        except BaseException:
            await self.node.stop()
            raise

    def _take_limits(self) -> None:
        self.listener.limits = self._limits()

    def _configs(self) -> dict[str, str]:
        """What was set, and our own words in Kafka's spelling: DescribeConfigs shows them."""
        told = {"listeners": listener_text(self.settings.listen)}
        told["broker.id"] = self.settings.configs.get("node.id", DEFAULT_NODE_ID)
        if self.settings.data_dir is not None:
            told["log.dirs"] = str(self.settings.data_dir.absolute())
        if self.settings.advertise is not None:
            told["advertised.listeners"] = listener_text(self.settings.advertise)
        return {**self.settings.configs, **told}

    def _limits(self) -> ListenerLimits:
        configs = self.node.configs.broker
        idle_ms, queued = configs["connections.max.idle.ms"], configs["queued.max.request.bytes"]
        return ListenerLimits(
            connections_max=min(configs["max.connections"], self._connections_room),
            connections_per_address_max=configs["max.connections.per.ip"],
            request_bytes_max=configs["socket.request.max.bytes"],
            queued_bytes_max=queued if queued >= 0 else sys.maxsize,
            idle_ms_max=idle_ms if idle_ms >= 0 else sys.maxsize,
        )

    async def run_until_stopped(self) -> None:
        await self._stopping.wait()
        await self._shut_down()

    def stop(self) -> None:
        self._stopping.set()

    async def _shut_down(self) -> None:
        """No new connections; answer what is in flight; then flush and close the logs."""
        self.listener.stop_accepting()
        self.node.fetch.wake_all()
        self.node.groups.release()
        await self.listener.drain(DRAIN_GRACE_S)
        await self.node.stop()


def address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listener_text(address: tuple[str, int]) -> str:
    return f"PLAINTEXT://{address_text(*address)}"


def raise_descriptor_limit() -> int:
    """Take as many file descriptors as the system allows; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError):
            log.warning("could not raise the limit of open files above %d", soft)
    return soft if soft != resource.RLIM_INFINITY else 1 << 20


def serve(settings: Settings, on_ready: Callable[[str, int], None] | None = None) -> int:
    """Run a broker in the foreground until SIGTERM or SIGINT; the exit code. ``on_ready`` learns the address."""
    logging.basicConfig(
        stream=sys.stderr,
        level=os.environ.get("RUNNEL_LOG_LEVEL", "INFO").upper(),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )
    gc.set_threshold(GC_THRESHOLD)
    keep_freed_memory()
    # kio registers its types with Hypothesis where that is installed: a quarter of a second that a server never needs.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(settings, on_ready))
    except StorageError as error:
        return _cannot_start(str(error))
    except OSError as error:
        host, port = settings.listen
        return _cannot_start(f"listening on {host}:{port} or opening {settings.data_dir}: {error}")
    return 0


def _cannot_start(reason: str) -> int:
    print(f"Error: cannot start: {reason}", file=sys.stderr)
    return 1


async def _serve(settings: Settings, on_ready: Callable[[str, int], None] | None) -> None:
    application = Application(settings)
    host, port = await application.start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, application, number)
    gc.freeze()
    print(f"ready kafka={address_text(host, port)}", flush=True)
    if on_ready is not None:
        on_ready(host, port)
    await application.run_until_stopped()
    log.info("stopped")


def _on_signal(application: Application, number: int) -> None:
    log.info("%s: draining connections and closing the logs", signal.Signals(number).name)
    application.stop()
