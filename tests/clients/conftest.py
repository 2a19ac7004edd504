"""The client under test as a fixture, one test per client; what a client cannot do is a plain skip."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.drivers import CLIENTS, Driver, Unsupported, load_driver
from harness.raw import RawConnection


@pytest.fixture(params=CLIENTS)
def client_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def client(client_name: str, bootstrap: str) -> Driver:
    return load_driver(client_name, bootstrap)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A driver that raises Unsupported skips its test."""
    try:
        return (yield)
    except Unsupported as reason:
        pytest.skip(str(reason))


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as connection:
        yield connection
