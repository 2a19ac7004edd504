"""Runnel: an event-streaming broker that Kafka clients already speak to.

``from runnel import Broker`` gives the broker inside this process; the ``runnel`` command runs it as a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnel.testing.broker import Broker

    __version__: str

__all__ = ["Broker", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported on demand: the command line must not pay for the embedded broker, nor the broker for the command line.
    if name == "Broker":
        from runnel.testing.broker import Broker

        return Broker
    if name == "__version__":
        from runnel.release import version

        return version()
    raise AttributeError(f"module 'runnel' has no attribute {name!r}")
