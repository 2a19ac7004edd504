"""UpdateFeatures: what may be finalized, and that one bad update refuses all."""

from __future__ import annotations

import pytest
from metadata_cluster import Cluster, register

from runnel.core.metadata import FeaturesOutcome, FeatureUpdate, SetFeatures, UpdateFeatures
from runnel.core.metadata.features import FIRST_LEVELS, GROUP_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from runnel.core.metadata.records import FeatureRange
from runnel.wire.errors import ErrorCode

UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=0)
    cluster.do(register(1, features=SUPPORTED_FEATURES))
    cluster.do(SetFeatures(FIRST_LEVELS))
    return cluster


def update(cluster: Cluster, *updates: tuple[str, int, int], validate_only: bool = False) -> FeaturesOutcome:
    reply = cluster.do(UpdateFeatures([FeatureUpdate(*given) for given in updates], validate_only))
    assert isinstance(reply, FeaturesOutcome)
    return reply


def test_down_and_up_again(cluster: Cluster) -> None:
    assert update(cluster, (GROUP_VERSION, 0, SAFE), validate_only=True) == FeaturesOutcome()
    assert cluster.machine.image.features[GROUP_VERSION] == 1
    assert update(cluster, (GROUP_VERSION, 0, SAFE)) == FeaturesOutcome()
    assert GROUP_VERSION not in cluster.machine.image.features
    assert update(cluster, (GROUP_VERSION, 1, UPGRADE)) == FeaturesOutcome()
    assert cluster.machine.image.features[GROUP_VERSION] == 1


def test_what_is_so_already_needs_no_record(cluster: Cluster) -> None:
    before = list(cluster.log)
    for kind in (UPGRADE, SAFE, UNSAFE):
        assert update(cluster, (GROUP_VERSION, 1, kind), (METADATA_VERSION, 30, kind)) == FeaturesOutcome()
    assert update(cluster) == FeaturesOutcome()
    assert cluster.log == before


@pytest.mark.parametrize(
    ("feature", "level", "kind", "words"),
    [
        (GROUP_VERSION, 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("nope", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("", 1, UPGRADE, "does not support this feature"),
        (GROUP_VERSION, -1, UPGRADE, "A feature version cannot be less than 0."),
        (GROUP_VERSION, 0, UPGRADE, "without setting the upgrade type"),
        (GROUP_VERSION, 0, 0, "does not support the given upgrade type"),
        (GROUP_VERSION, 0, 4, "does not support the given upgrade type"),
        (METADATA_VERSION, 31, UPGRADE, "only supports versions 7-30"),
        (METADATA_VERSION, 0, UNSAFE, "only supports versions 7-30"),
        (METADATA_VERSION, 29, SAFE, "might delete metadata information"),
        (METADATA_VERSION, 7, UNSAFE, "Unsafe metadata downgrade is not supported"),
    ],
)
def test_refusals(cluster: Cluster, feature: str, level: int, kind: int, words: str) -> None:
    before = dict(cluster.machine.image.features)
    outcome = update(cluster, (GROUP_VERSION, 0, SAFE), (feature, level, kind))
    assert outcome.code is ErrorCode.INVALID_UPDATE_VERSION
    assert (outcome.message or "").startswith("The update failed for all features since the following feature had an ")
    assert words in (outcome.message or "")
    assert cluster.machine.image.features == before


def test_an_upgrade_is_no_downgrade(cluster: Cluster) -> None:
    update(cluster, (GROUP_VERSION, 0, SAFE))
    assert "Can't downgrade to a newer version." in (update(cluster, (GROUP_VERSION, 1, SAFE)).message or "")


def test_every_broker_must_support_the_level(cluster: Cluster) -> None:
    update(cluster, (GROUP_VERSION, 0, SAFE))
    cluster.do(register(2, features=(FeatureRange(GROUP_VERSION, 0, 0),)))
    assert "Broker 2 only supports versions 0-0" in (update(cluster, (GROUP_VERSION, 1, UPGRADE)).message or "")
    cluster.do(register(2))
    assert "Broker 2 does not support this feature." in (update(cluster, (GROUP_VERSION, 1, UPGRADE)).message or "")
