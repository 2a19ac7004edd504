"""The columns of the card: how each client's program is built into the cache, and run.

In: a column's id. Out: a command line that takes BOOTSTRAP PREFIX FEATURE..., or Unavailable with one plain sentence.
Programs are built under the user's cache folder, named by a hash of their sources, so that a second run finds them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka_jars import KafkaUnavailable, cache_dir, client_libs, java_executable, kafka_libs

from java.jars import JVM_FLAGS

HERE = Path(__file__).parent
TESTS = HERE.parent
BUILD_SECONDS = 1800.0


class Unavailable(Exception):
    """A toolchain is missing; the message says which."""


class BuildFailed(Exception):
    """A program does not build; the message is the compiler's."""


class Column(NamedTuple):
    """One client. `prepare` may take minutes the first time; it gives the command line's beginning."""

    id: str
    title: str
    version: Callable[[], str]
    prepare: Callable[[], list[str]]
    in_ci: bool = False


def environment() -> dict[str, str]:
    """For Python programs: our tests, and the repository for `benchmarks`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent)))}


def build(command: list[str], folder: Path, **variables: str) -> None:
    """Run a compiler; its words are the error."""
    where = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False, env=where
    )
    if done.returncode != 0:
        raise BuildFailed(
            f"{' '.join(command[:3])} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )


def tool(name: str) -> str:
    """The path of a program on the PATH."""
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"no {name}")
    return found


def cached(kind: str, sources: list[Path], make: Callable[[Path], None], salt: str = "") -> Path:
    """A folder that `make` has filled once for these sources."""
    digest = hashlib.sha256(salt.encode())
    for source in sources:
        digest.update(source.name.encode() + source.read_bytes())
    target = cache_dir() / "compat" / f"{kind}-{digest.hexdigest()[:16]}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as scratch:
            made = Path(scratch, kind)
            made.mkdir()
            make(made)
            # Another process may have finished first: its folder is just as complete.
            with contextlib.suppress(OSError):
                made.rename(target)
    return target


# ---- Python


def _python(column: str, title: str, package: str) -> Column:
    command = [sys.executable, "-W", "ignore", "-m", "compat.python", column]
    return Column(column, title, lambda: metadata.version(package), lambda: command, in_ci=True)


def _librdkafka_version() -> str:
    import confluent_kafka

    return f"{confluent_kafka.libversion()[0]} (confluent-kafka {metadata.version('confluent-kafka')})"


# ---- Java


def _java(libs: Callable[[], Path], generation: str) -> list[str]:
    try:
        java, jars = java_executable(), libs()
    except KafkaUnavailable as reason:
        raise Unavailable(str(reason)) from None
    compiler = tool("javac")
    sources = sorted([*(HERE / "java").glob("*.java"), *(HERE / "java" / generation).glob("*.java")])

    def compile_into(folder: Path) -> None:
        build([compiler, "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources)], HERE)

    classes = cached("java", sources, compile_into, salt=str(jars))
    return [java, *JVM_FLAGS, "-cp", f"{classes}:{jars}/*", "Compat"]


def _jar_version(libs: Callable[[], Path]) -> str:
    (jar,) = libs().glob("kafka-clients-*.jar")
    return jar.stem.removeprefix("kafka-clients-")


def _java_column(id: str, title: str, libs: Callable[[], Path], generation: str) -> Column:
    return Column(id, title, lambda: _jar_version(libs), lambda: _java(libs, generation), in_ci=True)


# ---- Go


def _go() -> list[str]:
    go = tool("go")
    sources = [*sorted((HERE / "go").glob("*.go")), HERE / "go" / "go.mod", HERE / "go" / "go.sum"]

    def compile_into(folder: Path) -> None:
        build([go, "build", "-o", str(folder / "compat"), "."], HERE / "go", GOFLAGS="-buildvcs=false")

    return [str(cached("go", sources, compile_into) / "compat")]


# ---- JavaScript


def _node() -> list[str]:
    node, npm = tool("node"), tool("npm")
    sources = [HERE / "js" / "package.json", *sorted((HERE / "js").glob("*.js"))]

    def install_into(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        build([npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"], folder)

    return [node, "--no-warnings", str(cached("js", sources, install_into) / "compat.js")]


# ---- Rust


def _rust() -> list[str]:
    cargo = tool("cargo")
    tool("cc")  # librdkafka is built from source
    sources = [HERE / "rust" / "Cargo.toml", *sorted((HERE / "rust" / "src").glob("*.rs"))]

    def compile_into(folder: Path) -> None:
        shutil.copytree(HERE / "rust", folder / "source")
        # One target folder for every version of our program, so that librdkafka is built once.
        target = cache_dir() / "compat" / "rust-target"
        build([cargo, "build", "--release", "-q", "--target-dir", str(target)], folder / "source")
        shutil.copy(target / "release" / "compat", folder)

    return [str(cached("rust", sources, compile_into) / "compat")]


def _pinned(source: str, pattern: str) -> str:
    """The version that a column's own manifest pins."""
    found = re.search(pattern, (HERE / source).read_text())
    if found is None:
        raise BuildFailed(f"{source} pins no version")
    return found.group(1)


COLUMNS: dict[str, Column] = {
    column.id: column
    for column in (
        _python("confluent", "librdkafka", "confluent-kafka")._replace(version=_librdkafka_version),
        _python("aiokafka", "aiokafka", "aiokafka"),
        _python("kafka-python", "kafka-python", "kafka-python"),
        _java_column("java-4", "Java kafka-clients 4", lambda: kafka_libs(fetch=False), "newer"),
        _java_column("java-3.9", "Java kafka-clients 3.9", lambda: client_libs(fetch=False), "older"),
        Column("franz-go", "franz-go (Go)", lambda: _pinned("go/go.mod", r"franz-go v(\S+)"), _go),
        Column("kafkajs", "kafkajs (npm)", lambda: _pinned("js/package.json", r'"kafkajs": "(\S+)"'), _node),
        Column(
            "rdkafka", "rdkafka (Rust)", lambda: _pinned("rust/Cargo.toml", r'rdkafka = { version = "=(\S+)"'), _rust
        ),
    )
}
