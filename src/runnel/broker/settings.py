"""What a broker is started with: flags over environment over a YAML file over defaults.

Keys are Kafka's broker config names (``num.partitions``), plus the four words of the command line: ``data-dir``,
``listen``, ``advertise`` and ``memory``. In the environment a key is RUNNEL_ and the key in capitals with underscores
(RUNNEL_NUM_PARTITIONS, RUNNEL_DATA_DIR). Everything is checked before anything starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runnel.core.configs import BROKER_CONFIGS, ConfigInvalid
from runnel.core.configs.rules import check_static_configs

DEFAULT_DATA_DIR = "runnel-data"
DEFAULT_LISTEN = "127.0.0.1:9092"
ENVIRONMENT_PREFIX = "RUNNEL_"
OWN_KEYS = ("data-dir", "listen", "advertise", "memory")
# Kafka spells these as broker configs; here they are the words above, and saying both would be ambiguous.
KAFKA_SPELLINGS = {"log.dirs": "data-dir", "listeners": "listen", "advertised.listeners": "advertise"}
# Environment variables with our prefix that belong to other parts of Runnel.
FOREIGN_VARIABLES = frozenset({"RUNNEL_BOOTSTRAP", "RUNNEL_DEBUG", "RUNNEL_LOG_LEVEL", "RUNNEL_KAFKA_LIBS"})
WORDS_FOR_TRUE = frozenset({"true", "yes", "1", "on"})
WORDS_FOR_FALSE = frozenset({"false", "no", "0", "off"})


class SettingsInvalid(ValueError):
    """The broker cannot be started like this; the message is one line for a person."""


@dataclass(frozen=True, slots=True)
class Settings:
    data_dir: Path | None = Path(DEFAULT_DATA_DIR)  # None: everything in memory, nothing kept
    listen: tuple[str, int] = ("127.0.0.1", 9092)
    advertise: tuple[str, int] | None = None
    configs: Mapping[str, str] = field(default_factory=dict)  # broker configs by their Kafka names


def load_settings(flags: Mapping[str, str], config_path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Merge the three sources; SettingsInvalid names the source, the key and what is wrong."""
    merged: dict[str, str] = {}
    for source, values in (
        (f"file {config_path}", _from_file(config_path)),
        ("environment", _from_environment(environ)),
        ("command line", flags),
    ):
        for key, value in values.items():
            merged[_known_key(key, source)] = value
    return _settings(merged)


def _settings(values: dict[str, str]) -> Settings:
    configs = {key: value for key, value in values.items() if key not in OWN_KEYS}
    try:
        check_static_configs(configs)
    except ConfigInvalid as error:
        raise SettingsInvalid(str(error)) from error
    in_memory = _flag(values.get("memory", "false"), "memory")
    if in_memory and "data-dir" in values:
        raise SettingsInvalid("memory and data-dir exclude each other: in memory nothing is kept")
    advertise = values.get("advertise")
    return Settings(
        data_dir=None if in_memory else Path(values.get("data-dir", DEFAULT_DATA_DIR)),
        listen=parse_address(values.get("listen", DEFAULT_LISTEN), "listen"),
        advertise=None if advertise is None else parse_address(advertise, "advertise"),
        configs=configs,
    )


def _known_key(key: str, source: str) -> str:
    name = key.replace("_", "-") if key.replace("_", "-") in OWN_KEYS else key
    name = KAFKA_SPELLINGS.get(name, name)
    if name not in OWN_KEYS and name not in BROKER_CONFIGS:
        raise SettingsInvalid(
            f"unknown setting {key!r} in {source}; `runnel serve --help` and docs/configuration.md list them"
        )
    return name


def _from_file(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    import yaml  # only who uses a file pays for the parser

    try:
        content: Any = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingsInvalid(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsInvalid(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsInvalid(f"{path} must be a mapping of settings, one `key: value` per line")
    return {str(key): _text(value, str(key), path) for key, value in content.items()}


def _text(value: object, key: str, path: Path) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    if value is None or isinstance(value, dict):
        raise SettingsInvalid(f"{path}: {key} needs a plain value")
    return str(value)


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    spelled = {_variable(key): key for key in (*OWN_KEYS, *BROKER_CONFIGS)}
    found: dict[str, str] = {}
    for variable, value in environ.items():
        if variable in spelled:
            found[spelled[variable]] = value
        elif variable.startswith(ENVIRONMENT_PREFIX) and not _is_foreign(variable):
            raise SettingsInvalid(
                f"unknown environment variable {variable}; settings are listed in docs/configuration.md"
            )
    return found


def _variable(key: str) -> str:
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "_").replace("-", "_")


def _is_foreign(variable: str) -> bool:
    return variable in FOREIGN_VARIABLES or variable.startswith(ENVIRONMENT_PREFIX + "TEST_")


def parse_address(text: str, key: str) -> tuple[str, int]:
    """HOST:PORT, [IPv6]:PORT, or Kafka's PLAINTEXT://HOST:PORT."""
    bare = text.removeprefix("PLAINTEXT://")
    host, separator, port = bare.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if "://" in bare:
        raise SettingsInvalid(f"{key}: {text!r}: only PLAINTEXT listeners are built so far (docs/limits.md)")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise SettingsInvalid(f"{key}: {text!r} is not an address; give HOST:PORT, for example {DEFAULT_LISTEN}")
    return host or "0.0.0.0", int(port)


def _flag(text: str, key: str) -> bool:
    word = text.strip().lower()
    if word in WORDS_FOR_TRUE | WORDS_FOR_FALSE:
        return word in WORDS_FOR_TRUE
    raise SettingsInvalid(f"{key}: {text!r} is neither true nor false")
