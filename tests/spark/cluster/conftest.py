"""One standalone cluster for all tests that need one: three JVMs take their time to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark.cluster.standalone import StandaloneCluster


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(tmp_path_factory.mktemp("standalone"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()
