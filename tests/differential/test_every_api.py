"""Requests made from schemas alone, to every API in every version: what is advertised tomorrow is compared tomorrow."""

from __future__ import annotations

import pytest

from differential.both import Both
from differential.shapes import bodies
from differential.versions import SERVED

pytestmark = pytest.mark.java

SHOW_TOPICS = {3, 35, 43, 74, 75}
"""These show the topic that Metadata before version 4 makes, which in Kafka takes a moment."""
EVERY = [(api_key, version) for api_key, versions in SERVED.items() for version in versions]


@pytest.mark.parametrize(("api_key", "version"), EVERY)
def test_replies_to_shapes_are_equal(both: Both, api_key: int, version: int) -> None:
    with both.watched(f"shapes {api_key} {version}"):
        for _, body in bodies(api_key, version):
            both.ask(api_key, version, body, settle=api_key in SHOW_TOPICS)


def test_what_is_advertised_is_in_kafkas_ranges(both: Both) -> None:
    kafka, runnel = (
        {row["api_key"]: (row["min_version"], row["max_version"]) for row in side.ask(18, 0, {})["api_keys"]}
        for side in both.sides
    )
    assert {key: kafka.get(key) for key in runnel} == runnel
    assert set(runnel) == set(SERVED)
