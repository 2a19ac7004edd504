"""The client under test as a fixture, one test per client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.drivers import CLIENTS, Driver, load_driver
from harness.raw import RawConnection


@pytest.fixture(params=CLIENTS)
def client_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def client(client_name: str, bootstrap: str) -> Driver:
    return load_driver(client_name, bootstrap)


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as connection:
        yield connection
