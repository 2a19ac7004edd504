"""Java for these tests, or a plain skip."""

from __future__ import annotations

import pytest

from java.jars import Java, find_java


@pytest.fixture(scope="session")
def java() -> Java:
    return find_java()
