"""Offsets as text: the JSON of options and checkpoints, `{"topic":{"0":123}}`, as Spark's Kafka connector writes it.

In: text or nested dicts. Out: offsets by partition, and back in one fixed order, since Spark compares them as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from runnel.client.metadata import TopicPartition
from runnel.spark.errors import OptionError

LATEST = -1
EARLIEST = -2
OFFSET_MAX = 2**63 - 1

Offsets: TypeAlias = dict[TopicPartition, int]
Nested: TypeAlias = dict[str, dict[str, int]]

OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}} (-1: latest, -2: earliest)'
TIMESTAMPS_EXAMPLE = '{"topicA":{"0":1735689600000},"topicB":{"0":1735689600000}} (milliseconds)'
PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[2,4]}'


def parse_offsets(option: str, text: str, example: str) -> Offsets:
    """Numbers by topic and partition, from an option's JSON."""
    return from_nested(_parse(option, text, example), option, text, example)


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    nested = _parse(option, text, PARTITIONS_EXAMPLE)
    partitions: list[TopicPartition] = []
    for topic, numbers in nested.items():
        if not isinstance(numbers, list) or not all(_is_integer(number) for number in numbers):
            raise _unreadable(option, text, PARTITIONS_EXAMPLE)
        partitions += (TopicPartition(topic, number) for number in numbers)
    if not partitions:
        raise OptionError(f"option {option} names no partition: write e.g. {PARTITIONS_EXAMPLE}")
    return tuple(dict.fromkeys(sorted(partitions)))


def from_nested(
    nested: Mapping[str, Any], option: str = "offset", text: str = "", example: str = OFFSETS_EXAMPLE
) -> Offsets:
    offsets: Offsets = {}
    for topic, numbers in nested.items():
        if not isinstance(numbers, Mapping):
            raise _unreadable(option, text or str(nested), example)
        for partition, number in numbers.items():
            if not str(partition).isdecimal() or not _is_integer(number) or not EARLIEST <= number <= OFFSET_MAX:
                raise _unreadable(option, text or str(nested), example)
            offsets[TopicPartition(topic, int(partition))] = number
    return offsets


def to_nested(offsets: Mapping[TopicPartition, int]) -> Nested:
    """By topic, then by partition as a number: always the same text for the same offsets."""
    nested: Nested = {}
    for target in sorted(offsets):
        nested.setdefault(target.topic, {})[str(target.partition)] = offsets[target]
    return nested


def _parse(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        nested = json.loads(text)
    except ValueError:
        raise _unreadable(option, text, example) from None
    if not isinstance(nested, dict):
        raise _unreadable(option, text, example)
    return nested


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _unreadable(option: str, text: str, example: str) -> OptionError:
    return OptionError(f"option {option}: expected e.g. {example}, got {text}")
