"""The pytest plugin, active wherever Runnel is installed.

``runnel_broker``: one broker in this process for the whole session.
``runnel_topic``: a fresh topic for one test, deleted afterwards.
``runnel_reset``: the session's broker, emptied before and after the test.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runnel.testing.broker import Broker

NAME_LENGTH_MAX = 200
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def runnel_broker() -> Iterator[Broker]:
    """A running broker; ``runnel_broker.bootstrap_servers`` is what clients want to know."""
    from runnel.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def runnel_topic(runnel_broker: Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a topic with one partition that no other test uses."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:NAME_LENGTH_MAX]
    name = runnel_broker.create_topic(f"{readable}-{next(_numbers)}")
    yield name
    runnel_broker.delete_topic(name)


@pytest.fixture
def runnel_reset(runnel_broker: Broker) -> Iterator[Broker]:
    """The broker without any topic."""
    runnel_broker.reset()
    yield runnel_broker
    runnel_broker.reset()
