"""What the metadata machine is told from outside: the limits of the cluster and what a valid config is.

`ConfigJudge` is the shape that `core.configs.ConfigRules` has; the two packages do not import each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from runnel.wire.errors import Refusal


class ConfigJudge(Protocol):
    """Judges whole sets of overrides of a resource, by the number of its type."""

    def refusal(self, resource_type: int, overrides: Mapping[str, str], /) -> Refusal | None:
        """None, or why they are refused."""
        ...

    def list_default(self, resource_type: int, name: str, /) -> tuple[str, ...] | None:
        """The default words of a config of type LIST; None where it is not a list."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """Settings of the cluster that decide about topics. The limit per request is Kafka's own."""

    partitions_default: int = 1
    replication_factor_default: int = 1
    topic_deletion: bool = True
    partitions_per_broker_max: int = 100_000
    partitions_per_request_max: int = 10_000
