"""Java for these tests, or a plain skip; a broker whose consumer groups are quick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groups.java_members import SOURCE
from harness.process import BrokerProcess, external_bootstrap, watched
from java.jars import Java, find_java

QUICK_GROUPS = {
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.session.timeout.ms": 1_000,
}


@pytest.fixture(scope="session")
def java() -> Java:
    return find_java()


@pytest.fixture(scope="session")
def member_classes(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Path:
    classes = tmp_path_factory.mktemp("member-classes")
    java.compile(SOURCE, classes)
    return classes


@pytest.fixture(scope="session")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Members of consumer groups beat five times a second."""
    if external_bootstrap():
        pytest.skip("needs a broker process of its own; RUNNEL_TEST_BOOTSTRAP points elsewhere")
    with watched(BrokerProcess(tmp_path_factory.mktemp("quick-broker"), settings=QUICK_GROUPS)) as broker:
        yield broker
