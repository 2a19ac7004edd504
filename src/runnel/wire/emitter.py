"""Source code being generated: its lines, the names they use, and fresh variable names.

Shared by `decoders` and `encoders`, which say what the lines do.
"""

from __future__ import annotations

from typing import Any

from runnel.wire import primitives


class Emitter:
    def __init__(self, namespace: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.namespace = namespace
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, value: Any, prefix: str = "k") -> str:
        name = self.fresh(prefix)
        self.namespace[name] = value
        return name

    def primitive(self, name: str) -> str:
        self.namespace[name] = getattr(primitives, name)
        return name
