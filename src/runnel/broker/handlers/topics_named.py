"""The names of topics in requests that have a ``topics`` list: what the router asks permission for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnel.services.node import Node


def topic_names(node: Node, request: Any) -> list[str]:
    return [topic.name for topic in request.topics or ()]
