"""Owns where Apache Kafka's jars are: a folder the user names, or a cache that Maven fills once.

In: RUNNEL_KAFKA_LIBS, the pinned `java/pom.xml` and its siblings. Out: a folder of jars for `java -cp`,
or KafkaUnavailable with one plain sentence. Standard library only, because the tests import it too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

POM = Path(__file__).with_name("java") / "pom.xml"
CLIENTS_POM = POM.with_name("clients-3.9.xml")
CONNECTOR_POM = POM.with_name("spark-connector.xml")
JAVA_VERSION_MIN = 17  # Kafka 4 brokers and tools do not start on anything older
FETCH_TIMEOUT_S = 900
EXIT_UNAVAILABLE = 3


class KafkaUnavailable(Exception):
    """Apache Kafka cannot be run here; the message says what is missing."""


def kafka_version(pom: Path = POM, name: str = "kafka.version") -> str:
    """The version that the pom pins."""
    found = re.search(rf"<{re.escape(name)}>([^<]+)</", pom.read_text())
    if found is None:
        raise KafkaUnavailable(f"{pom.name} does not say {name}")
    return found.group(1)


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's cache folder for everything that the benchmarks and Java tests download or build."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runnel"


def java_executable(environ: Mapping[str, str] = os.environ) -> str:
    """The `java` to run, checked to be new enough for Kafka."""
    home = environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise KafkaUnavailable(f"no Java found: Apache Kafka needs Java {JAVA_VERSION_MIN} or newer on the PATH")
    version = java_version(java)
    if version < JAVA_VERSION_MIN:
        raise KafkaUnavailable(f"Java {version} found: Apache Kafka needs Java {JAVA_VERSION_MIN} or newer")
    return java


def java_version(java: str) -> int:
    """The feature release (17, 21, ...) that this `java` reports."""
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', text)
    return int(found.group(1)) if found else 0


def kafka_libs(environ: Mapping[str, str] = os.environ, *, fetch: bool = True) -> Path:
    """The folder that holds Kafka's jars; with `fetch`, Maven fills the cache when it is empty."""
    java_executable(environ)
    named = environ.get("RUNNEL_KAFKA_LIBS")
    if named:
        return _checked(Path(named))
    return _checked(_cached(POM, cache_dir(environ) / f"kafka-{kafka_version()}" / "libs", fetch=fetch))


def client_libs(environ: Mapping[str, str] = os.environ, *, fetch: bool = True) -> Path:
    """The folder that holds the previous generation of Kafka's Java clients, which Spark's connector uses."""
    java_executable(environ)
    folder = cache_dir(environ) / f"kafka-clients-{kafka_version(CLIENTS_POM)}"
    return _cached(CLIENTS_POM, folder / "libs", fetch=fetch)


def connector_libs(environ: Mapping[str, str] = os.environ, *, fetch: bool = True) -> Path:
    """The folder that holds Spark's own Kafka connector with what it needs beside Spark."""
    version = kafka_version(CONNECTOR_POM, "spark.connector.version")
    return _cached(CONNECTOR_POM, cache_dir(environ) / f"spark-connector-{version}" / "libs", fetch=fetch)


def _cached(pom: Path, libs: Path, *, fetch: bool) -> Path:
    if not libs.is_dir():
        if not fetch:
            raise KafkaUnavailable(f"no Kafka jars in {libs}: run `python -m benchmarks.kafka_jars` once")
        _fetch(pom, libs)
    return libs


def _checked(libs: Path) -> Path:
    if not any(libs.glob("kafka_2.13-*.jar")):
        raise KafkaUnavailable(f"{libs} holds no kafka_2.13 jar")
    return libs


def _fetch(pom: Path, libs: Path) -> None:
    """Download beside the target and rename, so that a folder that exists is always complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("no Maven found: install `mvn`, or name a folder of jars in RUNNEL_KAFKA_LIBS")
    libs.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=libs.parent) as scratch:
        _run_maven(maven, pom, Path(scratch))
        try:
            Path(scratch, "libs").rename(libs)
        except OSError:
            # Another process finished first: its folder is just as complete.
            if not libs.is_dir():
                raise


def _run_maven(maven: str, pom: Path, scratch: Path) -> None:
    # Maven writes beside the pom it is given, so it gets a copy.
    shutil.copy(pom, scratch / "pom.xml")
    command = [maven, "-B", "-q", "-f", str(scratch / "pom.xml"), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={scratch / 'libs'}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise KafkaUnavailable(f"Maven did not finish within {FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise KafkaUnavailable(f"Maven could not fetch Kafka's jars: {errors[0] if errors else 'no reason given'}")


def main() -> int:
    try:
        print(kafka_libs())
        print(client_libs())
        print(connector_libs())
    except KafkaUnavailable as problem:
        print(problem, file=sys.stderr)
        return EXIT_UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
