"""A broker to attack, shared by a module; after every test it must be up and serve a healthy client."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.process import BrokerProcess, external_bootstrap, watched
from hostile.victim import Victim


def _needs_own_broker() -> None:
    if external_bootstrap():
        pytest.skip("attacks only a broker of its own; RUNNEL_TEST_BOOTSTRAP points elsewhere")


@pytest.fixture(scope="module")
def victim_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    _needs_own_broker()
    with watched(BrokerProcess(tmp_path_factory.mktemp("victim"))) as broker:
        yield broker


@pytest.fixture
def victim(victim_process: BrokerProcess) -> Iterator[Victim]:
    target = Victim(victim_process)
    yield target
    target.check_healthy()


@pytest.fixture
def attack(tmp_path: Path) -> Iterator[Callable[..., Victim]]:
    """Starts a broker for one test, with settings by Kafka's names and `_` for `.`."""
    _needs_own_broker()
    with contextlib.ExitStack() as stack:

        def start(**settings: int) -> Victim:
            named = {key.replace("_", "."): value for key, value in settings.items()}
            return Victim(stack.enter_context(watched(BrokerProcess(tmp_path / "victim", settings=named))))

        yield start
