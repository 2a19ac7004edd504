"""The `kafka.*` options: which Kafka settings mean something here, and which are refused with the cure.

In: settings by Kafka's own names. Out: `BrokerSettings` for connections, `FetchSettings` for reading, or OptionError.
A setting that only Kafka's Java client has a use for (`kafka.max.poll.records`, ...) is accepted and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runnel.client.address import parse_addresses
from runnel.client.errors import ClientError
from runnel.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from runnel.client.security import check
from runnel.spark.errors import OptionError

PREFIX = "kafka."
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
BOOTSTRAP = "bootstrap.servers"
ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
FETCH_BYTES_MAX = 50 << 20
PARTITION_BYTES_MAX = 4 << 20
"""Four times Kafka's default: a task reads one partition at a time, and wants few round trips."""

REFUSED_IN_SOURCE = {
    "auto.offset.reset": (
        "use the option startingOffsets: it says where a new query starts, and a restarted one goes on where it was"
    ),
    "key.deserializer": "keys are bytes: decode them with DataFrame functions",
    "value.deserializer": "values are bytes: decode them with DataFrame functions, e.g. runnel.spark.from_json",
    "enable.auto.commit": (
        "offsets are kept in the query's checkpoint, and committed to a group for lag tools (option commitOffsets)"
    ),
    "interceptor.classes": "there is no Java consumer here: transform rows with DataFrame functions",
}
REFUSED_IN_SINK = {
    "key.serializer": "keys are binary or string columns: encode them with DataFrame functions",
    "value.serializer": "values are binary or string columns: encode them with DataFrame functions",
    "interceptor.classes": "there is no Java producer here: transform rows with DataFrame functions",
    "partitioner.class": "partitions follow the key as Kafka's default does: else give a partition column",
    "transactional.id": "transactional writes are not there yet: the sink is idempotent within each task",
}


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How to reach the cluster. `security` holds the settings that begin with security., ssl. and sasl."""

    bootstrap: str
    client_id: str = "runnel-spark"
    request_timeout_s: float = 30.0
    patience_s: float = 60.0
    receive_buffer_bytes: int = 0
    security: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Neither printed, for the passwords in it, nor hashed."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    isolation: int = READ_UNCOMMITTED
    fetch_bytes_max: int = FETCH_BYTES_MAX
    partition_bytes_max: int = PARTITION_BYTES_MAX
    min_bytes: int = 1
    wait_ms: int = 500
    check_crc: bool = True


def kafka_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The options that begin with `kafka.`, under Kafka's names."""
    return {
        name.lower().removeprefix(PREFIX): value.strip()
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }


def refuse(settings: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name, cure in refused.items():
        if name in settings:
            raise OptionError(f"option kafka.{name} is not supported: {cure}")


def broker_settings(settings: Mapping[str, str]) -> BrokerSettings:
    bootstrap = settings.get(BOOTSTRAP)
    if not bootstrap:
        raise OptionError("option kafka.bootstrap.servers is missing: write HOST:PORT[,HOST:PORT...]")
    try:
        parse_addresses(bootstrap)
    except ClientError as error:
        raise OptionError(f"option kafka.bootstrap.servers: {error.message}") from error
    security = {name: value for name, value in settings.items() if name.startswith(("security.", "ssl.", "sasl."))}
    try:
        check(security)  # here, on the driver, once; else every task would complain
    except ClientError as error:
        raise OptionError(f"option kafka.{error.message}") from error
    return BrokerSettings(
        bootstrap=bootstrap,
        client_id=settings.get("client.id", "runnel-spark"),
        request_timeout_s=whole_number(settings, "request.timeout.ms", 30_000, least=1) / 1000,
        patience_s=whole_number(settings, "default.api.timeout.ms", 60_000, least=0) / 1000,
        receive_buffer_bytes=max(0, whole_number(settings, "receive.buffer.bytes", 0, least=-1)),
        security=security,
    )


def fetch_settings(settings: Mapping[str, str]) -> FetchSettings:
    isolation = settings.get("isolation.level", "read_uncommitted").lower()
    if isolation not in ISOLATION:
        raise OptionError(f"option kafka.isolation.level is {isolation}: write {' or '.join(ISOLATION)}")
    return FetchSettings(
        isolation=ISOLATION[isolation],
        fetch_bytes_max=whole_number(settings, "fetch.max.bytes", FETCH_BYTES_MAX, least=1),
        partition_bytes_max=whole_number(settings, "max.partition.fetch.bytes", PARTITION_BYTES_MAX, least=1),
        min_bytes=whole_number(settings, "fetch.min.bytes", 1, least=0),
        wait_ms=whole_number(settings, "fetch.max.wait.ms", 500, least=0),
        check_crc=truth(settings, "check.crcs", True),
    )


def whole_number(
    settings: Mapping[str, str], name: str, default: int, *, least: int, most: int = INT32_MAX, prefix: str = PREFIX
) -> int:
    text = settings.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        raise OptionError(f"option {prefix}{name} is '{text}': write a whole number") from None
    if number < least:
        raise OptionError(f"option {prefix}{name} is {number}: write {least} or more")
    if number > most:
        raise OptionError(f"option {prefix}{name} is {number}: write {most} or less")
    return number


def truth(settings: Mapping[str, str], name: str, default: bool, *, prefix: str = PREFIX) -> bool:
    text = settings.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"option {prefix}{name} is '{text}': write true or false")
    return text == "true"
