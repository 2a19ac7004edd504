"""`session()`: a Spark session that works at once, in a script, a notebook or a test.

In: settings, as keyword arguments. Out: a SparkSession. Without a master it is `local[*]`, with Java found or
provided; where a master is named, only what every node needs is set. What the caller sets is never changed, nor what
spark-submit, `spark-defaults.conf` or a session that is there already says.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from runnel.spark.java import java_home
from runnel.spark.notebook import end_jobs_with_cells, make_active
from runnel.spark.spark_home import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_DEFAULT = "local[*]"

FILE_SYSTEM_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
DEFAULTS_FILE = "spark-defaults.conf"
DEFAULTS_LINE = re.compile(r"\s*([^\s=:#!]+)\s*[\s=:]\s*(.*?)\s*")
DAEMON = "spark.python.daemon.module"
LOGGING = Path(__file__).with_name("log4j2.properties").absolute()

# What the source and the sink like, wherever Spark runs.
EVERYWHERE = {
    "spark.app.name": "runnel",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
HOST = "spark.driver.host"
# What suits one machine: nothing listens beyond it, and data goes between the JVM and Python by Unix sockets.
ON_ONE_MACHINE = {
    "spark.python.unix.domain.socket.enabled": "true",
    HOST: "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    DAEMON: "runnel.spark.worker_daemon",
    # The default asks for the state of local files by starting processes, 42 for each trigger of a stream (ADR 11).
    "spark.sql.streaming.checkpointFileManagerClass": FILE_SYSTEM_CHECKPOINTS,
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    # In quotes, as a URI: the path of an installation may have spaces.
    "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"',
}
# What only a starting JVM takes, and a JVM outlives its sessions.
AT_THE_JVMS_START = (
    "spark.driver.memory",
    "spark.driver.extraClassPath",
    "spark.driver.extraJavaOptions",
    "spark.jars.packages",
)
NEW_PROCESS = "start a new process (in a notebook: restart the kernel)"


class SettingsIgnored(UserWarning):
    """Spark does not change these settings any more, and would not say so."""


class PythonMissing(RuntimeError):
    """Spark could not plan reads here; the message says what to set."""


class OnOneMachine(RuntimeError):
    """The JVM of this process cannot be reached from others; the message says what to do."""


def session(master: str | None = None, app_name: str | None = None, **conf: object) -> SparkSession:
    """The session for these settings; any Spark setting may be given, as `**{"spark.driver.memory": "2g"}`.

    `master` is what Spark calls so, or a Spark Connect server: `sc://host`. It may also come as `spark.master` or
    `spark.remote`, from spark-submit, `spark-defaults.conf`, or the environment (MASTER, SPARK_REMOTE).
    """
    from pyspark.sql import SparkSession

    settings = {name: _text(value) for name, value in conf.items()}
    if app_name is not None:
        settings["spark.app.name"] = app_name
    if is_remote(master):
        settings["spark.remote"] = master
    elif master is not None:
        settings["spark.master"] = master
    remote = settings.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    builder: Any = SparkSession.builder
    if remote:
        # A Connect server has its own Java, Python and static settings: nothing of ours applies but the session's.
        return _with(
            builder.remote(remote), {name: value for name, value in settings.items() if name != "spark.remote"}
        )
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        made = _with(builder, settings)
        make_active(made)
        tell_ignored(ignored_by(made, settings), "spark.stop() comes first")
        tell_ignored(ignored_by_jvm(settings), NEW_PROCESS)
        return made
    submitted = _submitted(os.environ)
    chosen = plan_settings({**submitted, **settings}, os.environ)
    if HOST not in chosen:
        check_jvm(chosen["spark.master"])
    tell_ignored(ignored_by_jvm(settings), NEW_PROCESS)
    prepare_environment(chosen["spark.master"], os.environ)
    made = _with(builder, {name: value for name, value in chosen.items() if submitted.get(name) != value})
    end_jobs_with_cells()
    return made


def ignored_by(session: SparkSession, settings: Mapping[str, str]) -> list[str]:
    """Those of the caller's that a session which is there already does not take; an app name hurts nobody."""
    context = session.sparkContext.getConf()
    elsewhere = {*AT_THE_JVMS_START, "spark.app.name"}
    return [
        name
        for name, value in sorted(settings.items())
        if name.startswith("spark.")
        and name not in elsewhere
        and value != (session.conf.get(name, None) if name.startswith("spark.sql.") else context.get(name))
    ]


def ignored_by_jvm(settings: Mapping[str, str]) -> list[str]:
    """Those that it had to be started with; none while there is no JVM."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm is None:
        return []
    return [name for name in AT_THE_JVMS_START if name in settings and jvm.System.getProperty(name) != settings[name]]


def tell_ignored(names: list[str], cure: str) -> None:
    if names:
        message = f"{', '.join(names)}: Spark runs already, and keeps what it was started with: {cure}"
        warnings.warn(message, SettingsIgnored, stacklevel=3)


def plan_settings(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's settings, and those of ours that nobody else has made; which of ours depends on the master."""
    defaults = spark_defaults(environ)
    master = settings.get("spark.master") or environ.get("MASTER") or defaults.get("spark.master") or MASTER_DEFAULT
    ours = {**EVERYWHERE, **(ON_ONE_MACHINE if is_local(master) else {})}
    if environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        ours.pop(DAEMON, None)  # another Python may not have it
    missing = {name: value for name, value in ours.items() if name not in defaults}
    return {**missing, **settings, "spark.master": master}


def spark_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """What the JVM will read at its start from the user's file, if there is one."""
    import pyspark

    home = environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(environ.get("SPARK_CONF_DIR") or Path(home, "conf"), DEFAULTS_FILE)
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {found[1]: found[2] for found in map(DEFAULTS_LINE.fullmatch, lines) if found}


def _submitted(environ: Mapping[str, str]) -> dict[str, str]:
    """All that spark-submit has told the JVM which it started for this program."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" not in environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def is_remote(master: str | None) -> TypeGuard[str]:
    """Whether it names a Spark Connect server."""
    return master is not None and master.startswith("sc://")


def prepare_environment(master: str, environ: MutableMapping[str, str]) -> None:
    """What Spark reads from the environment before there is a JVM to tell."""
    # Spark would take the first `python3` on the PATH, in which neither pyspark nor runnel need be installed.
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" not in environ:  # else spark-submit has started the JVM already
        environ["JAVA_HOME"] = str(java_home(environ))
        if not is_local(master):
            _one_python_for_all(environ)
    if is_local(master):
        environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        # A machine whose own name does not resolve (a laptop, a container) would else fail to bind or warn.
        environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Another Python may have no pyspark but that of Spark's own folder.
        home = spark_home(environ) if environ["PYSPARK_PYTHON"] == sys.executable else None
        if home is not None:
            environ.setdefault("SPARK_HOME", str(home))


def _one_python_for_all(environ: MutableMapping[str, str]) -> None:
    """Spark plans reads here and runs them on the nodes by one name: PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON."""
    environ.pop("PYSPARK_DRIVER_PYTHON", None)  # the driver is this process already, whatever that names
    name = environ["PYSPARK_PYTHON"]
    folder, path = str(Path(sys.executable).parent), environ.get("PATH", os.defpath)
    if os.sep not in name and path.split(os.pathsep)[0] != folder:
        path = environ["PATH"] = f"{folder}{os.pathsep}{path}"
    if shutil.which(name, path=path) is None:
        raise PythonMissing(
            f"PYSPARK_PYTHON is {name}, which this machine does not have, and Spark plans reads here. Name a path that "
            "is right here and on the executors, or `python3`: here that is this Python, there the first on the PATH "
            "(which spark.executorEnv.PATH sets)"
        )


def check_jvm(master: str) -> None:
    """A JVM outlives its sessions, and keeps what it was started with: executors elsewhere would call in vain."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm is not None and not is_local(master) and jvm.System.getProperty(HOST) == ON_ONE_MACHINE[HOST]:
        raise OnOneMachine(
            f"this process has run a local session, and Spark's JVM listens on {ON_ONE_MACHINE[HOST]} since: start a "
            f"new process for {master} (in a notebook: restart the kernel), or set {HOST} if that is on this machine"
        )


def _with(builder: Any, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    return made


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
