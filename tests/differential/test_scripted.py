"""Every scenario in every version of its API."""

from __future__ import annotations

import pytest

from differential import scripts  # registers the scenarios
from differential.both import Both
from differential.plays import SCENARIOS, Play, Scenario
from differential.versions import SERVED

pytestmark = pytest.mark.java

PLAYED = [
    pytest.param(scenario, version, id=f"{scenario.name}-v{version}")
    for scenario in SCENARIOS
    for version in SERVED.get(scenario.api_key, ())
    if scenario.lowest <= version <= scenario.highest
]


@pytest.mark.parametrize(("scenario", "version"), PLAYED)
def test_replies_are_equal(both: Both, scenario: Scenario, version: int) -> None:
    with both.watched(f"{scenario.name} {version}"):
        scenario.run(Play(both, scenario.api_key, version, scenario.name))


def test_every_advertised_api_has_a_scenario() -> None:
    assert scripts.__doc__
    assert set(SERVED) - {scenario.api_key for scenario in SCENARIOS} == set()
