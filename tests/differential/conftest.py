"""Both brokers, started once for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from differential.both import Both, running_both


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with running_both(tmp_path_factory.mktemp("differential")) as running:
        yield running
