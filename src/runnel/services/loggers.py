"""The log levels of this broker's loggers, as DescribeConfigs and IncrementalAlterConfigs show and set them (KIP-412).

In: a logger's name and one of Kafka's level names. Out: rows, or the logger set. Levels last until the broker stops.
`root` stands for `runnel`, from which all of Runnel's loggers inherit: those of a program that runs a broker inside
itself are its own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from runnel.core.configs import ConfigRow, ConfigSource, ConfigType
from runnel.core.metadata import ConfigChange, ConfigOperation
from runnel.core.metadata.alterations import check_changes
from runnel.wire.errors import ErrorCode, Refusal

OWN = "runnel"
ROOT = "root"
TRACE = 5
LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
DOCUMENTATION = "The lowest level that this logger writes: TRACE, DEBUG, INFO, WARN, ERROR or FATAL."


def describe_loggers(names: Collection[str] | None) -> list[ConfigRow]:
    return [
        ConfigRow(
            name=name,
            value=_shown(logger),
            source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            is_default=False,
            read_only=False,
            sensitive=False,
            synonyms=(),
            type=ConfigType.UNKNOWN,  # as in Kafka
            documentation=DOCUMENTATION,
        )
        for name, logger in sorted(_loggers().items())
        if names is None or name in names
    ]


def change_loggers(changes: Sequence[ConfigChange], validate_only: bool) -> None:
    """Set all levels, or Refusal of the first change that cannot be."""
    check_changes(changes)
    loggers = _loggers()
    levels = [(_logger(loggers, change.name), _level(change)) for change in changes]
    if not validate_only:
        for logger, level in levels:
            logger.setLevel(level)


def _loggers() -> dict[str, logging.Logger]:
    known = {
        name: logger
        for name, logger in list(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and name.startswith(f"{OWN}.")
    }
    own = logging.getLogger(OWN)
    return {ROOT: own, OWN: own, **known}


def _logger(loggers: dict[str, logging.Logger], name: str) -> logging.Logger:
    logger = loggers.get(name)
    if logger is None:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    return logger


def _level(change: ConfigChange) -> int:
    if change.operation == ConfigOperation.SET:
        level = LEVELS.get(change.value or "")
        if level is None:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(LEVELS))}",
            )
        return level
    if change.operation == ConfigOperation.DELETE:
        if change.name == ROOT:
            message = "Removing the log level of the root logger is not allowed"
            raise Refusal(ErrorCode.INVALID_REQUEST, message)
        return logging.NOTSET
    known = change.operation in tuple(ConfigOperation)
    verb = ConfigOperation(change.operation).name if known else f"Unknown ({change.operation})"
    raise Refusal(ErrorCode.INVALID_REQUEST, f"{verb} operation is not allowed for the BROKER_LOGGER resource")


def _shown(logger: logging.Logger) -> str:
    """Kafka's name of the level in force; one between two of them counts as the more talkative."""
    level = logger.getEffectiveLevel()
    names = [name for name, number in LEVELS.items() if number <= level]
    return names[-1] if names else "TRACE"
