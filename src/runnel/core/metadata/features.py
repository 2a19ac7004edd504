"""The features of a cluster (KIP-584): what this release supports, and what is finalized at a first start.

`metadata.version` is the level of the metadata records, whose newest encodings are those of Kafka 4.3. `group.version`
1 turns the next-generation group protocol on (KIP-848). What is not built has no feature here: clients take a feature
that is not there for level 0.
"""

from runnel.core.metadata.records import FeatureRange

METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"

SUPPORTED_FEATURES = (
    FeatureRange(GROUP_VERSION, 0, 1),
    FeatureRange(METADATA_VERSION, 7, 30),  # 3.3-IV3 to 4.3-IV0
)
# A log without metadata.version was never given any features: it is new, or of a release that had none.
FIRST_LEVELS = {METADATA_VERSION: 30, GROUP_VERSION: 1}
