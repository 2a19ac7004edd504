"""kafka-clients 4.x: producer, consumer and admin, all checks of Compat.java in one JVM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from java.jars import Java

pytestmark = pytest.mark.java

SOURCE = Path(__file__).with_name("Compat.java")
CHECKS = [
    match.group(1)
    for match in re.finditer(r'checks\.put\("([^"]+)",', SOURCE.read_text())
    if not match.group(1).endswith(" ")
] + [f"compression {codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd")]

# The same words as in the other clients' tests, so that the table has one row for each feature.
FEATURES = {
    "idempotent default producer": "idempotent producer",
    "acks 0, 1 and all": "acks",
    "nulls and empty values": "null values",
    "records over the limit are refused": "a record over the limit is refused",
    "seek and watermarks": "fetch from the middle of a batch",
    "auto create": "topics are created on first use",
    "admin: create topics": "admin: create topic",
    "admin: create topics, validate only": "admin: create topic, validate only",
    "admin: create topics, assignments": "admin: create topic, assignments",
    "admin: delete topics by name and id": "admin: delete topic",
    "admin: describe topics by name and id": "admin: describe topics",
    "admin: incremental alter configs": "admin: alter configs, incremental",
    "admin: describe log dirs": "admin: log dirs",
}


def _feature(check: str) -> str:
    return "compression" if check.startswith("compression") else FEATURES.get(check, check)


@pytest.fixture(scope="session")
def results(java: Java, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each check's name and "" or what went wrong."""
    classes = tmp_path_factory.mktemp("classes")
    java.compile(SOURCE, classes)
    done = java.run("Compat", bootstrap, classes=classes)
    found = {}
    for line in done.stdout.splitlines():
        outcome, _, rest = line.partition(" ")
        if outcome == "ok":
            found[rest] = ""
        elif outcome == "FAIL":
            name, _, reason = rest.rpartition(": ") if ": " not in rest else _split(rest)
            found[name] = reason
    if not found:
        raise AssertionError(f"the Java client said nothing; stderr:\n{done.stderr}")
    return found


def _split(rest: str) -> tuple[str, str, str]:
    """Names may have a colon of their own ("admin: ..."): the longest known name wins."""
    known = max((name for name in CHECKS if rest.startswith(f"{name}: ")), key=len)
    return known, ": ", rest[len(known) + 2 :]


@pytest.mark.parametrize(
    "check", [pytest.param(name, marks=pytest.mark.compat(client="java", feature=_feature(name))) for name in CHECKS]
)
def test_java_client(results: dict[str, str], check: str) -> None:
    assert check in results, f"the Java client never came to this check; it ran {sorted(results)}"
    assert results[check] == ""
