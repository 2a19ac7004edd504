"""Which quota holds for whom, and who shares it: Kafka's order of precedence.

In: the quotas of the cluster's image and one key (`producer_byte_rate`); out: a `Share` and its limit for a user and a
client id, or a limit for an address. A share names those who are measured together: all client ids of a user, for
example, where the quota is the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
Quotas: TypeAlias = Mapping[Entity, Mapping[str, float]]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class Share(NamedTuple):
    """Those who are measured together. An empty part is no part of it: of every user, or of every client id."""

    user: str
    client_id: str


_NAMED, _DEFAULT, _ABSENT = 0, 1, 2
_PRECEDENCE = (  # (user, client id), the most specific first; a user's own quota precedes any client id's
    (_NAMED, _NAMED),
    (_NAMED, _DEFAULT),
    (_NAMED, _ABSENT),
    (_DEFAULT, _NAMED),
    (_DEFAULT, _DEFAULT),
    (_DEFAULT, _ABSENT),
    (_ABSENT, _NAMED),
    (_ABSENT, _DEFAULT),
)


def _part(kind: str, level: int, name: str) -> Entity:
    """One side of an entity: named, the default (whose name is None), or not there at all."""
    return () if level == _ABSENT else ((kind, name if level == _NAMED else None),)


class ClientTable:
    """The quotas of one key for users and client ids."""

    __slots__ = ("_limits",)

    def __init__(self, quotas: Quotas, key: str) -> None:
        self._limits = {
            entity: values[key]
            for entity, values in quotas.items()
            if key in values and entity and not any(kind == IP for kind, _ in entity)
        }

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client_id: str) -> tuple[Share, float] | None:
        """The most specific quota. One without a client id is never limited by client id, nor by its default."""
        for user_level, client_level in _PRECEDENCE:
            if client_level != _ABSENT and not client_id:
                continue
            entity = _part(CLIENT_ID, client_level, client_id) + _part(USER, user_level, user)
            limit = self._limits.get(entity)
            if limit is not None:
                share = Share("" if user_level == _ABSENT else user, "" if client_level == _ABSENT else client_id)
                return share, limit
        return None


class AddressTable:
    """The quotas of one key for addresses."""

    __slots__ = ("_default", "_limits")

    def __init__(self, quotas: Quotas, key: str) -> None:
        named = [
            (entity[0][1], values[key]) for entity, values in quotas.items() if entity[0][0] == IP and key in values
        ]
        self._limits = {plain_address(name): limit for name, limit in named if name is not None}
        self._default = next((limit for name, limit in named if name is None), None)

    def __bool__(self) -> bool:
        return bool(self._limits) or self._default is not None

    def find(self, address: str) -> float | None:
        return self._limits.get(address, self._default)


def plain_address(text: str) -> str:
    """One spelling per address: IPv6 in short, and IPv4 as such where a dual-stack socket shows it inside IPv6."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
