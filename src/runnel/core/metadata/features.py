"""The features of a cluster (KIP-584): what this release supports, what a first start finalizes, and changes to that.

`metadata.version` is the level of the metadata records, whose newest encodings are those of Kafka 4.3. `group.version`
1 turns the next-generation group protocol on (KIP-848). What is not built has no feature here: clients take a feature
that is not there for level 0. In: the image and a command. Out: FeatureLevelRecords and a reply; one bad update refuses
all, as in Kafka. No two of these features depend on each other, so levels are checked one by one.
"""

from collections.abc import Iterable
from enum import IntEnum

from runnel.core.metadata.commands import Decision, FeaturesOutcome, FeatureUpdate, SetFeatures, UpdateFeatures
from runnel.core.metadata.image import ClusterImage
from runnel.core.metadata.records import FeatureLevelRecord, FeatureRange, MetadataRecord
from runnel.wire.errors import ErrorCode, Refusal

METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"

SUPPORTED_FEATURES: tuple[FeatureRange, ...] = (
    FeatureRange(GROUP_VERSION, 0, 1),
    FeatureRange(METADATA_VERSION, 7, 30),  # 3.3-IV3 to 4.3-IV0
)
# A log without metadata.version was never given any features: it is new, or of a release that had none.
FIRST_LEVELS = {METADATA_VERSION: 30, GROUP_VERSION: 1}


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def set_features(image: ClusterImage, command: SetFeatures) -> Decision[None]:
    """Feature levels that differ from what is finalized."""
    return Decision(_changes(image, command.levels.items()), None)


def update_features(image: ClusterImage, command: UpdateFeatures) -> Decision[FeaturesOutcome]:
    try:
        for update in command.updates:
            _check(image, update)
    except Refusal as refusal:
        message = f"The update failed for all features since the following feature had an error: {refusal.message}"
        return Decision([], FeaturesOutcome(refusal.code, message))
    levels = {update.feature: update.level for update in command.updates}
    return Decision([] if command.validate_only else _changes(image, levels.items()), FeaturesOutcome())


def _changes(image: ClusterImage, levels: Iterable[tuple[str, int]]) -> list[MetadataRecord]:
    return [FeatureLevelRecord(name, level) for name, level in levels if image.features.get(name, 0) != level]


def _check(image: ClusterImage, update: FeatureUpdate) -> None:
    feature, level, upgrade_type = update
    if upgrade_type not in tuple(UpgradeType):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    _check_supported(image, update)
    current = image.features.get(feature, 0)
    if level < current and upgrade_type == UpgradeType.UPGRADE:
        reason = "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
        raise _invalid(update, reason + "unsafe downgrade.")
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if level < current and feature == METADATA_VERSION:
        raise _metadata_downgrade(current, update)


def _check_supported(image: ClusterImage, update: FeatureUpdate) -> None:
    """By this controller, and by every broker that is registered."""
    supporters = [(f"Local controller {image.controller_id}", SUPPORTED_FEATURES)]
    supporters += [(f"Broker {broker.broker_id}", broker.features) for broker in image.brokers.values()]
    for who, features in supporters:
        found = next((feature for feature in features if feature.name == update.feature), None)
        if found is None:
            raise _invalid(update, f"{who} does not support this feature.")
        low, high = found.min_supported_version, found.max_supported_version
        if not low <= update.level <= high:
            raise _invalid(update, f"{who} only supports versions {low}-{high}")


def _metadata_downgrade(current: int, update: FeatureUpdate) -> Refusal:
    """Records of the log would have to be forgotten."""
    reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    message = f"Unsupported metadata.version downgrade from {current} to {update.level}. {reason}"
    return Refusal(ErrorCode.INVALID_UPDATE_VERSION, message)


def _invalid(update: FeatureUpdate, reason: str) -> Refusal:
    message = f"Invalid update version {update.level} for feature {update.feature}. {reason}"
    return Refusal(ErrorCode.INVALID_UPDATE_VERSION, message)
