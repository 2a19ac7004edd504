"""Fixtures of the tests that talk to a real broker over TCP.

`bootstrap` is a `runnel serve` process shared by the session, or, with RUNNEL_TEST_BOOTSTRAP=host:port, any broker
that is already running (Apache Kafka, to check the tests themselves).
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.process import WATCHED, BrokerProcess, external_bootstrap

EXTERNAL_BOOTSTRAP = external_bootstrap()
RUN_MARK = secrets.token_hex(3)

_topic_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    # Warnings are errors, but not those that kafka-python causes while it imports itself.
    config.addinivalue_line("filterwarnings", "ignore:(read_text|open_text|contents) is deprecated:DeprecationWarning")


@pytest.fixture(scope="session")
def broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | None]:
    """The session's own broker, or None where the broker is external."""
    if EXTERNAL_BOOTSTRAP:
        yield None
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("session-broker"))
    WATCHED.append(broker)
    broker.start()
    yield broker
    broker.terminate()


@pytest.fixture(scope="session")
def bootstrap(broker_process: BrokerProcess | None) -> str:
    return EXTERNAL_BOOTSTRAP or _own(broker_process).address


@pytest.fixture
def own_broker(broker_process: BrokerProcess | None) -> BrokerProcess:
    """The session's broker as a process; skips where the broker is external."""
    return _own(broker_process)


def _own(broker: BrokerProcess | None) -> BrokerProcess:
    if broker is None:
        pytest.skip("needs a broker process of its own; RUNNEL_TEST_BOOTSTRAP points elsewhere")
    return broker


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts brokers for one test, with any settings; all of them are gone afterwards."""
    if EXTERNAL_BOOTSTRAP:
        pytest.skip("needs a broker process of its own; RUNNEL_TEST_BOOTSTRAP points elsewhere")
    started: list[BrokerProcess] = []

    def start(settings: Mapping[str, Any] | None = None, **options: Any) -> BrokerProcess:
        broker = BrokerProcess(tmp_path / f"broker{len(started)}", settings=settings, **options)
        started.append(broker)
        WATCHED.append(broker)
        return broker.start()

    yield start
    for broker in started:
        broker.stop()
        WATCHED.remove(broker)


@pytest.fixture
def new_name() -> Callable[[], str]:
    """Fresh topic names: the mark tells runs against the same external broker apart."""
    return lambda: f"t{next(_topic_numbers)}-{RUN_MARK}"


@pytest.fixture
def new_topic(bootstrap: str, new_name: Callable[[], str]) -> Callable[..., str]:
    """Creates a fresh topic and returns its name. Configs by Kafka's names, with `_` for `.`."""
    from harness.topics import create_topic

    def create(partitions: int = 1, **configs: Any) -> str:
        name = new_name()
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        create_topic(bootstrap, name, partitions, settings)
        return name

    return create


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    for broker in WATCHED:
        broker.forget_stderr()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        for broker in WATCHED:
            report.sections.append((f"stderr of broker {broker.address}", broker.stderr_text()))
