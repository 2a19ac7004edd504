"""How text becomes a value, what is refused with which words, and how values are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.core.configs import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigDefinition,
    ConfigInvalid,
    ConfigType,
    ConfigValue,
)
from runnel.core.configs.definitions import LONG_MAX, parse, render

TABLES = [
    *TOPIC_CONFIGS.values(),
    *BROKER_CONFIGS.values(),
    *GROUP_CONFIGS.values(),
    *CLIENT_METRICS_CONFIGS.values(),
]
PYTHON_TYPES: dict[ConfigType, type | tuple[type, ...]] = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple,
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "-1", -1),
        ("retention.ms", " 5 ", 5),
        ("retention.ms", "+5", 5),
        ("retention.ms", str(LONG_MAX), LONG_MAX),
        ("retention.bytes", "-7", -7),
        ("segment.bytes", "1048576", 1 << 20),
        ("preallocate", "TRUE", True),
        ("preallocate", "false", False),
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "compact , delete", ("compact", "delete")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("min.cleanable.dirty.ratio", "5e-1", 0.5),
        ("compression.type", " gzip ", "gzip"),
        ("compression.gzip.level", "-1", -1),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:1", ("0:1", "1:1")),
        ("leader.replication.throttled.replicas", "", ()),
    ],
)
def test_texts_that_are_values(name: str, text: str, value: ConfigValue) -> None:
    parsed = parse(TOPIC_CONFIGS[name], text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.ms", "abc", "retention.ms: 'abc' is not a whole number; give milliseconds, or -1 for no limit"),
        ("retention.ms", "", "retention.ms: '' is not a whole number; give milliseconds, or -1 for no limit"),
        ("retention.ms", "-2", "retention.ms: '-2' is not allowed; give 0 or more, or -1 for no limit"),
        ("retention.ms", "1_000", "retention.ms: '1_000' is not a whole number"),
        ("retention.ms", "٣", "retention.ms: '٣' is not a whole number"),
        ("retention.ms", str(LONG_MAX + 1), "does not fit in 64 bits"),
        ("segment.bytes", "2147483648", "segment.bytes: 2147483648 does not fit in 32 bits; give bytes"),
        ("segment.bytes", "1048575", "segment.bytes: '1048575' is not allowed; give 1048576 or more"),
        ("segment.bytes", "1e6", "is not a whole number"),
        ("preallocate", "yes", "preallocate: 'yes' is neither true nor false"),
        ("cleanup.policy", "keep", "give a comma separated list of compact, delete"),
        ("cleanup.policy", "compact,,delete", "give a comma separated list of compact, delete"),
        ("compression.type", "ZSTD", "give one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "give from 1 to 9, or -1 for the codec's own default"),
        ("min.cleanable.dirty.ratio", "1.1", "give from 0 to 1"),
        ("min.cleanable.dirty.ratio", "NaN", "is not a number"),
        ("min.cleanable.dirty.ratio", "1e999", "is not a number"),
        ("leader.replication.throttled.replicas", "0:1,*", "give a comma separated list of partition:broker, or *"),
        ("local.retention.ms", "-3", "-2 to follow retention.ms"),
    ],
)
def test_texts_that_are_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse(TOPIC_CONFIGS[name], text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{name}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (0.001, "0.001"),
        (0.00001, "1.0E-5"),
        (1.25e-7, "1.25E-7"),
        (1e7, "1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_values_are_shown_as_java_shows_them(value: ConfigValue, text: str | None) -> None:
    assert render(value) == text


@pytest.mark.parametrize("definition", TABLES, ids=lambda definition: definition.name)
def test_defaults_have_the_type_of_their_key_and_pass_its_limits(definition: ConfigDefinition) -> None:
    if definition.default is None:
        return
    assert isinstance(definition.default, PYTHON_TYPES[definition.type])
    text = render(definition.default)
    assert text is not None
    assert parse(definition, text) == definition.default


@pytest.mark.parametrize("definition", TABLES, ids=lambda definition: definition.name)
def test_every_key_is_explained_in_a_sentence(definition: ConfigDefinition) -> None:
    assert definition.documentation.endswith(".")
    assert 20 < len(definition.documentation) < 400


@given(st.sampled_from(TABLES), st.text(max_size=12))
def test_any_text_is_a_value_or_refused(definition: ConfigDefinition, text: str) -> None:
    try:
        value = parse(definition, text)
    except ConfigInvalid:
        return
    shown = render(value)
    assert shown is not None
    assert parse(definition, shown) == value
