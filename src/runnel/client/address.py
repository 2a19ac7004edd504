"""Broker addresses as people write them: `host`, `host:port`, `[::1]:9092`, and lists of them.

In: text. Out: `Address` values, or a `ClientError` that shows how to write one.
"""

from __future__ import annotations

from typing import NamedTuple

from runnel.client.errors import ClientError

PORT_DEFAULT = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """One address; the port may be left out. A listener name in front (`PLAINTEXT://`) is accepted."""
    rest = text.strip().rpartition("://")[2]
    if rest.startswith("["):
        host, _, tail = rest[1:].partition("]")
        port = tail.removeprefix(":")
    elif rest.count(":") > 1:
        raise ClientError(f"'{text}' is not an address: write an IPv6 address as [::1]:9092")
    else:
        host, _, port = rest.partition(":")
    if not host or not (port == "" or (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise ClientError(f"'{text}' is not an address: write HOST:PORT, for example localhost:9092")
    return Address(host, int(port) if port else PORT_DEFAULT)


def parse_addresses(text: str) -> tuple[Address, ...]:
    """A comma-separated bootstrap list, without repeats, in the order given."""
    pieces = [piece for piece in text.split(",") if piece.strip()]
    if not pieces:
        raise ClientError("no broker address given: write HOST:PORT[,HOST:PORT...], for example localhost:9092")
    return tuple(dict.fromkeys(parse_address(piece) for piece in pieces))
