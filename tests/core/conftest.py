"""One Apache Kafka beside our machine for all tests of this folder: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from both_beside import STATIC, Both
from kafka_beside import running_kafka


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), STATIC) as kafka:
        yield Both(kafka)
