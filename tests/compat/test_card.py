"""The columns of the card that CI runs (Python and Java), and Kafka's command-line tools: one test for each cell.

The columns' programs run in the background from the first test on, while the tools run one after the other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from compat import absent, features, tools
from compat.broker import BROKER_SETTINGS
from compat.columns import COLUMNS, Unavailable
from compat.run import Cell, run_column
from harness.process import BrokerProcess, external_bootstrap, watched

CELLS = [
    pytest.param(
        column.id, feature, id=f"{column.id}-{feature}", marks=[pytest.mark.java] if "java" in column.id else []
    )
    for column in COLUMNS.values()
    if column.in_ci
    for feature in features.IDS
    if (column.id, feature) not in absent.ABSENT
]
JOBS = 2
Runs = dict[str, "Future[dict[str, Cell]]"]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    external = external_bootstrap()
    if external:
        yield external
        return
    with watched(BrokerProcess(tmp_path_factory.mktemp("compat"), settings=BROKER_SETTINGS)) as broker:
        yield broker.address


@pytest.fixture(scope="module", autouse=True)
def runs(request: pytest.FixtureRequest, bootstrap: str) -> Runs:
    """A run of each column that a selected test asks for, with the features that are asked for."""
    wanted: dict[str, list[str]] = {}
    for item in request.session.items:
        parameters = getattr(item, "callspec", None) and item.callspec.params  # type: ignore[attr-defined]
        if parameters and {"column", "feature"} <= parameters.keys():
            wanted.setdefault(parameters["column"], []).append(parameters["feature"])
    # All have ended when the pool is left: pytest changes the environment with each test, and a process that is being
    # started at that moment may not start.
    with ThreadPoolExecutor(JOBS) as pool:
        return {
            column: pool.submit(run_column, COLUMNS[column], bootstrap, f"{column}.{secrets.token_hex(2)}", asked)
            for column, asked in wanted.items()
        }


@pytest.mark.slow  # a JVM for each command; `make compat` runs them all
@pytest.mark.java
@pytest.mark.parametrize("name", tools.SCENARIOS)
def test_tool(name: str, bootstrap: str, tmp_path: Path) -> None:
    cell = tools.run_tool(name, bootstrap, f"tool-{secrets.token_hex(2)}", tmp_path)
    if cell.result == "not run":
        pytest.skip(cell.detail)
    assert cell.result == "ok", cell.detail


@pytest.mark.parametrize(("column", "feature"), CELLS)
def test_cell(runs: Runs, column: str, feature: str) -> None:
    try:
        cell = runs[column].result()[feature]
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert cell.result == "ok", cell.detail


def test_the_table_of_absent_features_is_about_features_that_exist() -> None:
    assert {feature for _, feature in absent.ABSENT} <= set(features.IDS)
    assert {column for column, _ in absent.ABSENT} <= set(COLUMNS)


def test_a_program_that_says_nothing_is_a_failure(bootstrap: str) -> None:
    """No cell can be ok by default: not when the program dies, nor when it leaves a feature out."""
    dead = COLUMNS["confluent"]._replace(prepare=lambda: ["false"])
    assert [cell.result for cell in run_column(dead, bootstrap, "dead", ["gzip"]).values()] == ["FAIL"]
    found = run_column(COLUMNS["confluent"], bootstrap, "odd", ["no-such-feature"])
    assert found["no-such-feature"] == Cell("FAIL", "the program has no such scenario")


def test_what_is_checked_from_outside_can_fail(bootstrap: str) -> None:
    """Records that were not compressed do not pass for gzip."""
    from clients.drivers.confluent_driver import ConfluentDriver
    from compat import outside
    from compat.python import numbered

    topic = f"outside.{secrets.token_hex(2)}"
    ConfluentDriver(bootstrap).produce(topic, numbered(500))
    with pytest.raises(AssertionError, match="codecs"):
        outside.check(bootstrap, "gzip", topic)
    with pytest.raises(AssertionError, match="out of sequence"):
        outside.check(bootstrap, "idempotent", topic)
