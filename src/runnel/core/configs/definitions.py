"""What a configuration key is: its type, default, limits and words, and how text becomes its value.

In: a definition and a text (from a client, a settings file, the metadata log). Out: a typed value, or
`ConfigInvalid` with one line that names the key, the text and what is allowed. Text forms are Kafka's:
durations and sizes are plain integers, lists are comma separated.
"""

import math
import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None

LONG_MAX = 2**63 - 1


class ConfigKind(IntEnum):
    """What configs are of: the resource types of the config APIs."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigType(IntEnum):
    """The type ids of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source ids of DescribeConfigs, strongest first for a topic."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigInvalid(ValueError):
    """A text is not a value of its key; the message is one line for a person."""


class ConfigUnknown(ConfigInvalid):
    """There is no such key."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `minimum` to `maximum`, both included; `special` values stand outside and carry their meaning."""

    minimum: float | None = None
    maximum: float | None = None
    special: tuple[tuple[int, str], ...] = ()

    def allows(self, value: ConfigValue) -> bool:
        if not isinstance(value, int | float):
            return False
        if any(value == number for number, _ in self.special):
            return True
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)

    def allowed(self) -> str:
        if self.minimum is not None and self.maximum is not None:
            limits = f"from {self.minimum} to {self.maximum}"
        elif self.minimum is not None:
            limits = f"{self.minimum} or more"
        else:
            limits = "any"
        return limits + "".join(f", or {number} {meaning}" for number, meaning in self.special)


@dataclass(frozen=True, slots=True)
class Choices:
    """One of these words."""

    words: tuple[str, ...]

    def allows(self, value: ConfigValue) -> bool:
        return value in self.words

    def allowed(self) -> str:
        return "one of " + ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class ListOf:
    """Any of these words; the empty list too. A word given twice counts once, as in Kafka."""

    words: tuple[str, ...]

    def allows(self, value: ConfigValue) -> bool:
        if not isinstance(value, tuple):
            return False
        return all(word in self.words for word in value)

    def allowed(self) -> str:
        return "a comma separated list of " + ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class ReplicaList:
    """Kafka's throttled replicas: `partition:broker` pairs, or a single `*`, or nothing."""

    def allows(self, value: ConfigValue) -> bool:
        if not isinstance(value, tuple):
            return False
        return value == ("*",) or all(re.fullmatch(r"[0-9]+:[0-9]+", pair) for pair in value)

    def allowed(self) -> str:
        return "a comma separated list of partition:broker, or *"


_DURATION = re.compile(r"P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where a reader starts that has no offset: an end of the log, or a time ago (KIP-1106)."""

    def allows(self, value: ConfigValue) -> bool:
        if not isinstance(value, str):
            return False
        if value in ("earliest", "latest"):
            return True
        word, _, duration = value.partition(":")
        return word == "by_duration" and _DURATION.fullmatch(duration) is not None

    def allowed(self) -> str:
        return "earliest, latest, or by_duration:<PnDTnHnMn.nS>"


CLIENT_PROPERTIES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


@dataclass(frozen=True, slots=True)
class ClientPatterns:
    """Pairs of a property of clients and a regular expression (KIP-714)."""

    def allows(self, value: ConfigValue) -> bool:
        return isinstance(value, tuple) and all(_is_client_pattern(pair) for pair in value)

    def allowed(self) -> str:
        return f"a comma separated list of property=regular expression, a property being {', '.join(CLIENT_PROPERTIES)}"


def _is_client_pattern(pair: str) -> bool:
    name, separator, pattern = pair.partition("=")
    if not separator or "=" in pattern or name.strip() not in CLIENT_PROPERTIES:
        return False
    try:
        re.compile(pattern.strip())
    except re.error:
        return False
    return True


Validator: TypeAlias = Range | Choices | ListOf | ReplicaList | OffsetReset | ClientPatterns


@dataclass(frozen=True, slots=True)
class ConfigDefinition:
    """One key. `effective` is False where the value is accepted, stored and shown but changes nothing yet."""

    name: str
    type: ConfigType
    default: ConfigValue
    documentation: str
    validator: Validator | None = None
    broker_synonym: str | None = None
    effective: bool = True
    sensitive: bool = False
    read_only: bool = False


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_UNITS = {"ms": "milliseconds", "bytes": "bytes", "hours": "hours", "minutes": "minutes"}
_SEPARATOR = re.compile(r"\s*,\s*")


def parse(definition: ConfigDefinition, text: str) -> ConfigValue:
    """The typed value of `text`, checked against the limits of its key; ConfigInvalid otherwise."""
    value = _typed(definition, text.strip())
    validator = definition.validator
    if isinstance(validator, ListOf) and isinstance(value, tuple):
        value = tuple(dict.fromkeys(value))
    if validator is not None and not validator.allows(value):
        raise ConfigInvalid(f"{definition.name}: '{text}' is not allowed; give {validator.allowed()}")
    return value


def render(value: ConfigValue) -> str | None:
    """The text of a value as Kafka writes it in DescribeConfigs; None where there is no value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _render_double(value)
    return str(value)


def split_list(text: str) -> tuple[str, ...]:
    """The words of a LIST value; nothing but blanks is the empty list."""
    stripped = text.strip()
    return tuple(_SEPARATOR.split(stripped)) if stripped else ()


def _typed(definition: ConfigDefinition, text: str) -> ConfigValue:
    kind = definition.type
    if kind in _BITS:
        return _whole_number(definition, text)
    if kind is ConfigType.BOOLEAN:
        return _boolean(definition, text)
    if kind is ConfigType.DOUBLE:
        return _decimal(definition, text)
    if kind is ConfigType.LIST:
        return split_list(text)
    return text


def _whole_number(definition: ConfigDefinition, text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ConfigInvalid(f"{definition.name}: '{text}' is not a whole number; {_expected(definition)}")
    value = int(text)
    bits = _BITS[definition.type]
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ConfigInvalid(f"{definition.name}: {text} does not fit in {bits} bits; {_expected(definition)}")
    return value


def _boolean(definition: ConfigDefinition, text: str) -> bool:
    word = text.lower()
    if word not in ("true", "false"):
        raise ConfigInvalid(f"{definition.name}: '{text}' is neither true nor false")
    return word == "true"


def _decimal(definition: ConfigDefinition, text: str) -> float:
    if not _DECIMAL.fullmatch(text) or not math.isfinite(value := float(text)):
        raise ConfigInvalid(f"{definition.name}: '{text}' is not a number; {_expected(definition)}")
    return value


def _expected(definition: ConfigDefinition) -> str:
    unit = _UNITS.get(definition.name.rpartition(".")[2], "a number")
    validator = definition.validator
    if not isinstance(validator, Range):
        return f"give {unit}"
    if validator.minimum is None or validator.maximum is None:
        return f"give {unit}" + "".join(f", or {number} {meaning}" for number, meaning in validator.special)
    return f"give {unit} {validator.allowed()}"


def _render_double(value: float) -> str:
    """Java's Double.toString: plain from 0.001 up to ten million, with an exponent outside."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:.16e}".partition("e")
    for digits in range(1, 17):
        candidate = f"{value:.{digits}e}"
        if float(candidate) == value:
            mantissa, _, exponent = candidate.partition("e")
            break
    return f"{mantissa}E{int(exponent)}"
