"""The Spark that pipelines run on: a JVM of ours with a Spark Connect door on 127.0.0.1, or a Connect server elsewhere.

In: a master or a `sc://` address, and settings. Out: Connect sessions. Pipelines exist in Spark Connect only. The JVM
is started as PySpark starts its own, so it ends when this process does, however that ends; PySpark's own session of
this process, if there is one, is left alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, java_gateway
from pyspark.errors import PySparkException

from runnel.spark.spark_session import plan_settings, prepare_environment

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

CONNECT_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
EXIT_S = 30.0
RETRIES_MAX = 4
"""Some seconds. Of a JVM of our own that is gone nobody starts another; Spark would ask it for a quarter of an hour."""
LOG_SHOWN_CHARACTERS = 600
# Nothing listens beyond this machine, and a session sees only its own artifacts, as in PySpark's local Connect server.
DOOR = {
    "spark.plugins": CONNECT_PLUGIN,
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}
# An error's text without the JVM's stack under it.
QUIET = {"spark.sql.connect.serverStacktrace.enabled": "false"}


class EngineFailed(RuntimeError):
    """The JVM did not start, or it has ended; the message has what it said, or where that is."""


class Engine:
    """Where sessions come from. Use as a context manager, or `close` it."""

    def __init__(self, url: str, gateway: Any = None, context: Any = None, log: Path | None = None) -> None:
        self.url = url
        self._gateway = gateway
        self._context = context
        self._log = log

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self, conf: Mapping[str, str]) -> SparkSession:
        """A session of its own. As in Spark's builder, settings that only a new JVM could take are passed over."""
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        from runnel.spark.pipelines.listener_bus import ListenerBus

        builder: Any = SparkSession.builder
        before = SparkSession.getActiveSession()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one for each of those
                made: SparkSession = builder.remote(self.url).config(map={**QUIET, **conf}).create()
        except PySparkException as error:
            failed: Any = SparkSession.getActiveSession()
            if failed is not None and failed is not before:
                failed.client.close()  # else it asks the server once more when Python ends, for many minutes
            raise EngineFailed(f"Spark opens no session: {self._refusal() or error}") from error
        streams: Any = made.streams
        streams._sqlb = ListenerBus(streams)
        if self._gateway is not None:
            made.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES_MAX)])
        return made

    def _refusal(self) -> str | None:
        """What a session of our own JVM fails on, a setting mostly: through the door comes only that it does."""
        if self._gateway is None:
            return None
        try:
            self._gateway.jvm.SparkSession(self._context.sc(), {}).sessionState()
        except Py4JJavaError as error:
            cause = error.java_exception
            while cause.getCause() is not None:
                cause = cause.getCause()
            return str(cause.getMessage())
        except (Py4JError, OSError):  # the JVM is gone
            return None
        return None

    def close(self) -> None:
        if self._gateway is None:
            return
        gateway, self._gateway = self._gateway, None
        with contextlib.suppress(Py4JError, OSError):  # a JVM that is gone already
            self._context.stop()
        _end(gateway)

    @property
    def jvm(self) -> Any:
        """The JVM of our own, as py4j shows it; None where Spark is a server elsewhere."""
        return self._gateway.jvm if self._gateway is not None else None

    @property
    def is_gone(self) -> bool:
        """Whether a JVM of our own has ended by itself: killed, or out of memory."""
        return self._gateway is not None and self._gateway.proc is not None and self._gateway.proc.poll() is not None

    @property
    def last_words(self) -> str:
        """Of a JVM that is gone: whatever else is said by then is a consequence."""
        return "Spark's JVM has ended" + (f"; what it said last is in {self._log}" if self._log else "")


def start_engine(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, app_name: str, log: Path | None = None
) -> Engine:
    """A JVM for `master`, prepared as `runnel.spark.session()` does it. What it prints goes to `log`, or to stderr."""
    wanted = {"spark.app.name": app_name, **(conf or {}), **({"spark.master": master} if master else {})}
    settings = {**DOOR, **plan_settings(wanted, os.environ)}
    token = secrets.token_hex(16)
    prepare_environment(settings["spark.master"], os.environ)
    # The token goes by the environment: a command line is for everyone to see. Without the other two: else the JVM
    # that is to be the server would look for one.
    with _environment({TOKEN: token, "SPARK_REMOTE": None, CONNECT_MODE: None}):
        gateway = _launch(settings, log)
    jvm = gateway.jvm
    try:
        context = jvm.JavaSparkContext(jvm.SparkConf())
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage())
        _end(gateway)
        raise EngineFailed(f"Spark does not start on {settings['spark.master']}: {reason}") from error
    service = getattr(getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    port = service.localPort()
    return Engine(f"sc://localhost:{port}/;token={token}", gateway, context, log)


def _launch(settings: Mapping[str, str], log: Path | None) -> Any:
    launch: Any = java_gateway.launch_gateway  # has no types
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    if log is None:
        return launch(conf)
    with log.open("wb") as file:
        try:
            return launch(conf, {"stderr": file, "stdout": file})
        except PySparkException as error:
            last = log.read_text(errors="replace").strip()[-LOG_SHOWN_CHARACTERS:]
            raise EngineFailed(f"Spark does not start: {last or error} (all of it: {log})") from error


def _end(gateway: Any) -> None:
    gateway.shutdown()
    if gateway.proc is None:  # spark-submit started it, and ends it
        return
    gateway.proc.stdin.close()  # the JVM ends with the pipe
    try:
        gateway.proc.wait(EXIT_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def connect_mode(session: SparkSession) -> Iterator[None]:
    """Within it `pyspark.sql` means Connect, and this session: definitions are written against that."""
    from pyspark.sql.connect.session import SparkSession

    active: Any = SparkSession._active_session
    before = getattr(active, "session", None)
    active.session = session
    try:
        with _environment({CONNECT_MODE: "1"}):
            yield
    finally:
        active.session = before


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """With these variables, or without those that are None."""
    before = {name: os.environ.get(name) for name in changes}
    _change_environment(changes)
    try:
        yield
    finally:
        _change_environment(before)


def _change_environment(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
