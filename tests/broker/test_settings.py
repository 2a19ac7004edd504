"""Settings: who wins, and what is said of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.broker.settings import SettingsInvalid, load_settings


def test_the_defaults_are_embedded_ones() -> None:
    settings = load_settings({}, None, {})
    assert settings.data_dir == Path("runnel-data")
    assert settings.listen == ("127.0.0.1", 9092)
    assert settings.advertise is None
    assert settings.configs == {}


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "runnel.yaml"
    file.write_text("num.partitions: 2\nlisten: 127.0.0.1:1\nlog.retention.ms: 5\nauto.create.topics.enable: false\n")
    environ = {"RUNNEL_NUM_PARTITIONS": "3", "RUNNEL_LISTEN": "127.0.0.1:2", "PATH": "ignored"}
    settings = load_settings({"listen": "127.0.0.1:3"}, file, environ)
    assert settings.listen == ("127.0.0.1", 3)
    assert settings.configs == {
        "num.partitions": "3",
        "log.retention.ms": "5",
        "auto.create.topics.enable": "false",
    }


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        (":9092", ("0.0.0.0", 9092)),
        ("PLAINTEXT://broker:9", ("broker", 9)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert load_settings({"listen": text}, None, {}).listen == address


@pytest.mark.parametrize(
    ("flags", "environ", "words"),
    [
        ({"listen": "nowhere"}, {}, "HOST:PORT"),
        ({"listen": "host:99999"}, {}, "HOST:PORT"),
        ({"listen": "SSL://host:1"}, {}, "only PLAINTEXT"),
        ({"num.partitions": "many"}, {}, "num.partitions: 'many' is not a whole number"),
        ({"num.partition": "1"}, {}, "num.partition"),
        ({"memory": "perhaps"}, {}, "neither true nor false"),
        ({"memory": "true", "data-dir": "x"}, {}, "exclude each other"),
        ({}, {"RUNNEL_NUM_PARTITION": "1"}, "RUNNEL_NUM_PARTITION"),
    ],
)
def test_what_is_wrong_is_named(flags: dict[str, str], environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsInvalid) as raised:
        load_settings(flags, None, environ)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- a\n- b\n", "mapping"),
        ("a: [1", "not valid YAML"),
        ("num.partitions: {}\n", "plain value"),
        ("nope: 1", "nope"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "runnel.yaml"
    file.write_text(content)
    with pytest.raises(SettingsInvalid, match=words):
        load_settings({}, file, {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="cannot read"):
        load_settings({}, tmp_path / "absent.yaml", {})
