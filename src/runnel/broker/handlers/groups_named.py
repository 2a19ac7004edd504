"""The group that a request names, and the refusal of one that may not be touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.core.metadata.features import GROUP_VERSION
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.broker.router import Context
    from runnel.services.node import Node


def group_id(node: Node, request: Any) -> list[str]:
    return [request.group_id]


def check_allowed(context: Context, group: str) -> None:
    if group in context.denied:
        raise Refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"not authorised to access group {group}")


def consumer_groups_enabled(context: Context) -> None:
    """Refusal where the cluster's feature level has no consumer groups (KIP-848)."""
    if context.node.image.features.get(GROUP_VERSION, 0) < 1:  # level 0 is a feature that is not there
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, "the feature group.version is 0: there are no consumer groups")
