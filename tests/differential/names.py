"""Names for values that each broker makes up itself: topic ids, member ids, producer ids, session ids.

A request is written once, with a `Name` wherever such a value goes; each side puts in its own. In replies the
values become names again, so that the two can be compared.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Name(NamedTuple):
    kind: str
    """topic, member, producer, session"""
    text: str

    def __repr__(self) -> str:
        return f"<{self.kind} {self.text}>"


class Built(NamedTuple):
    """A value that has to be built for each side, such as a batch with a producer id in it."""

    build: Callable[[Names], Any]
    text: str

    def __repr__(self) -> str:
        return f"<{self.text}>"


class Names:
    """One broker's values by name, and back."""

    def __init__(self) -> None:
        self._values: dict[Name, Any] = {}
        self._names: dict[tuple[str, Any], Name] = {}

    def learn(self, name: Name, value: Any) -> None:
        self._values[name] = value
        self._names[name.kind, value] = name

    def learn_topic(self, topic: str, topic_id: uuid.UUID) -> None:
        self.learn(Name("topic", topic), topic_id)

    def value(self, name: Name) -> Any:
        return self._values[name]

    def name(self, kind: str, value: Any) -> Any:
        """The name of the value, or the value itself where it has none."""
        return self._names.get((kind, value), value)

    def resolved(self, body: Any) -> Any:
        """The same request with this side's values in place of names."""
        if isinstance(body, Name):
            return self.value(body)
        if isinstance(body, Built):
            return body.build(self)
        if isinstance(body, Mapping):
            return {key: self.resolved(value) for key, value in body.items()}
        return [self.resolved(item) for item in body] if isinstance(body, list) else body

    def named(self, value: Any) -> Any:
        """Ids that need no context to be recognised. The ids in requests that belong to no topic are not random."""
        if isinstance(value, uuid.UUID):
            return self.name(
                "topic", "<new id>" if value.version == 4 and ("topic", value) not in self._names else value
            )
        return self.name("member", value) if isinstance(value, str) else value
