"""Bad input: one clear line, the right exit code, no traceback. None of this needs a broker."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from cli.conftest import command, environment
from runnel.cli.main import VERBS, cli


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env={"RUNNEL_BOOTSTRAP": None, "RUNNEL_DEBUG": None})


USAGE_ERRORS = [
    (("topci",), "no such verb 'topci'; did you mean 'topic'?"),
    (("topic", "creat"), "no such verb 'creat'; did you mean 'create'?"),
    (("topic", "create"), "Missing argument 'TOPIC...'"),
    (("topic", "create", "a", "-c", "nonsense"), "'nonsense' is not of the form KEY=VALUE"),
    (("topic", "create", "a", "-p", "0"), "0 is not in the range"),
    (("topic", "create", "a", "--frobnicate"), "No such option"),
    (("topic", "alter", "a"), "nothing to change"),
    (("topic", "add-partitions", "a"), "give either -n"),
    (("topic", "add-partitions", "a", "-n", "1", "-p", "2"), "give either -n"),
    (("topic", "trim", "a"), "give either --before-offset or --to-timestamp"),
    (("topic", "trim", "a", "--to-timestamp", "soon"), "'soon' is not a time"),
    (("topic", "delete"), "name the topics to delete"),
    (("topic", "list", "-r", "("), "is not a regular expression"),
    (("topic", "list", "-b", "host:port:port"), "is not an address"),
    (("-b", "x:y", "topic", "list"), "'x:y' is not an address"),
    (("topic", "list", "--timeout", "0"), "0.0 is not in the range"),
    (("consume", "a", "-o", "middle"), "'middle' is not a position"),
    (("consume", "a", "-p", "x"), "does not name partitions"),
    (("consume", "a", "-f", "%q"), "'%q' is not a field of a format"),
    (("consume", "a", "-e", "--until", "5"), "-e and --until exclude each other"),
    (("consume", "a", "--json", "-f", "%v"), "--json excludes -f and -K"),
    (("produce", "a", "--tombstone"), "--tombstone needs a key"),
    (("produce", "a", "-H", "=x", "-v", "1"), "'=x' is not a header"),
    (("produce", "a", "-D", ""), "cannot be empty"),
    (("produce", "a", "-v", "1", "-z", "rar"), "'rar' is not one of"),
    (("produce", "a", "/no/such/file"), "does not exist"),
    (("group", "lst"), "no such verb 'lst'; did you mean 'list'?"),
    (("group", "list", "--state", "sleepy"), "'sleepy' is no state of a group; there are PreparingRebalance"),
    (("group", "list", "--type", "modern"), "'modern' is no type of a group; there are classic"),
    (("group", "describe"), "name the groups, or give --all-groups or --regex"),
    (("group", "describe", "-r", "("), "is not a regular expression"),
    (("group", "describe", "g", "--every", "0"), "0.0 is not in the range"),
    (("group", "delete"), "name the groups to delete"),
    (("group", "offset-delete", "g"), "Missing option '-t'"),
    (("group", "reset", "--to-latest"), "name the groups, or give --all-groups"),
    (("group", "reset", "g"), "say where to, once: --to-earliest"),
    (("group", "reset", "g", "--to-latest", "--to-earliest"), "say where to, once: --to-earliest"),
    (("group", "reset", "g", "--to-latest", "--execute", "--dry-run"), "exclude each other"),
    (("group", "reset", "g", "--to-latest", "-t", "a", "--all-topics"), "exclude each other"),
    (("group", "reset", "g", "--to-latest", "-t", "a:x"), "'x' does not name partitions"),
    (("group", "reset", "g", "--to-datetime", "noon"), "'noon' is not a time"),
    (("group", "reset", "g", "--by-duration", "soon"), "'soon' is not a duration: write 90m"),
    (("group", "reset", "g", "--to-offset", "-1"), "-1 is not in the range"),
    (("group", "reset", "g", "--from-file", "/no/such/file"), "No such file"),
    (("group", "seek", "g"), "say where to, once: --to, --to-group or --to-file"),
    (("group", "seek", "g", "--to", "42"), "`runnel group reset GROUP --to-offset 42` sets an offset"),
    (("group", "seek", "g", "--to", "noon"), "'noon' is not a time"),
    (("config", "describe"), "say whose configs: --topic NAME, --broker ID"),
    (("config", "set", "--topic", "a"), "nothing to set: give KEY=VALUE"),
    (("config", "set", "--topic", "a", "b"), "'b' is not of the form KEY=VALUE"),
    (("config", "unset", "--topic", "a"), "Missing argument 'KEY...'"),
    (("config", "describe", "--broker", "first"), "'first' is not a broker: brokers are numbers"),
    (("config", "describe", "--entity-type", "topics"), "--entity-type needs --entity-name"),
    (("config", "describe", "--entity-name", "a"), "--entity-name needs --entity-type"),
    (("quota", "set", "producer_byte_rate=1"), "say whose quota: --user, --client-id, --ip"),
    (("quota", "set", "--user", "a", "producer_byte_rat=1"), "did you mean producer_byte_rate?"),
    (("quota", "set", "--user", "a", "producer_byte_rate=x"), "write a number, or a size as 10MiB"),
    (("quota", "set", "--user", "a", "request_percentage=1MB"), "write a number (see"),
    (("quota", "set", "--user", "a"), "Missing argument 'QUOTA=VALUE...'"),
    (("quota", "set", "--user", "a", "--ip", "::1", "x=1"), "quotas of addresses stand alone"),
    (("quota", "set", "--user", "a", "--default", "user", "producer_byte_rate=1"), "user was named twice"),
    (
        ("quota", "set", "--ip", "::1", "producer_byte_rate=1"),
        "is not a quota of ip; there are connection_creation_rate",
    ),
    (("quota", "unset", "--user", "a"), "name the quotas to take away, or give --all"),
    (("quota", "describe"), "say whose quotas"),
    (("quota", "describe", "--default", "user"), "`runnel quota list` shows defaults"),
    (("user", "create", "a", "--random", "-p", "x"), "give one of --password, --password-file and --random"),
    (("user", "create", "a", "-p", ""), "the password is empty"),
    (("user", "create", "a", "-p", "x", "-i", "1"), "1 is not in the range"),
    (("user", "create", "a", "-p", "x", "-m", "MD5"), "'MD5' is not one of"),
    (("cluster", "helth"), "no such verb 'helth'; did you mean 'health'?"),
    (("log", "dump"), "name a data directory"),
    (("log", "verify"), "Missing argument 'PATH...'"),
    (("completion", "tcsh"), "'tcsh' is not one of"),
    (("serve", "--set", "num.partitions"), "is not of the form KEY=VALUE"),
    (("serve", "--set", "no.such.key=1"), "no.such.key"),
    (("serve", "--listen", "nonsense"), "nonsense"),
    (("serve", "--memory", "--data-dir", "x"), "exclude each other"),
    (("serve", "--config", "/no/such/file.yaml"), "/no/such/file.yaml"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE_ERRORS, ids=lambda value: " ".join(value)[:50])
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_failure_is_one_line_and_exit_code_1() -> None:
    for verb in (
        ("topic", "list"),
        ("consume", "a"),
        ("produce", "a", "-v", "x"),
        ("topic", "create", "a", "--json"),
        ("group", "list"),
        ("group", "describe", "g", "--watch"),
        ("group", "reset", "g", "--to-latest"),
        ("config", "list"),
        ("quota", "list"),
        ("user", "list"),
        ("cluster", "info"),
    ):
        result = invoke(*verb, "-b", "127.0.0.1:1")
        assert result.exit_code == 1
        assert result.stderr == (
            "Error: cannot connect to 127.0.0.1:1: connection refused; is the broker running? "
            "start one with `runnel serve`\n"
        )


def test_debug_shows_the_traceback() -> None:
    result = CliRunner().invoke(cli, ["topic", "list", "-b", "127.0.0.1:1"], env={"RUNNEL_DEBUG": "1"})
    assert "Traceback" in result.stderr
    assert result.stderr.rstrip().splitlines()[-1].startswith("Error: ")


def test_a_bug_of_ours_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("runnel.cli.version.print_json", broken)
    result = invoke("version", "--json")
    assert result.exit_code == 1
    assert result.stderr == "Error: unexpected KeyError: 'oops' (RUNNEL_DEBUG=1 shows where; please report it)\n"


@pytest.mark.parametrize("group", ["topic", "group", "config", "quota", "user", "cluster", "log"])
def test_every_verb_of_a_group_has_help(group: str) -> None:
    listed = invoke(group, "--help").stdout.partition("Commands:")[2]
    verbs = [line.split()[0] for line in listed.splitlines() if line.strip()]
    assert len(verbs) >= 2
    for verb in verbs:
        result = invoke(group, verb, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: cli {group} {verb}")
        assert "--json" in result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_its_line_matches(verb: str) -> None:
    assert verb in invoke("--help").stdout
    result = invoke(verb, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: cli {verb}")


def test_without_a_verb_the_help_is_shown() -> None:
    result = invoke()
    assert result.exit_code == 2
    assert "Verbs:" in result.stderr


def test_the_version() -> None:
    assert invoke("version").stdout.startswith("runnel ")
    assert '"runnel"' in invoke("version", "--json").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert "_RUNNEL_COMPLETE" in result.stdout


def test_serve_loads_neither_the_client_nor_rich() -> None:
    script = (
        "import sys; from runnel.cli.main import cli; import runnel.cli.serve, runnel.broker.app\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'rich' or name.startswith('runnel.client')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_front_door_loads_only_click() -> None:
    script = "import sys, runnel.cli.main; print(*(name for name in sys.modules if name.startswith('runnel')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {
        "runnel",
        "runnel.cli",
        "runnel.cli.main",
        "runnel.cli.options",
        "runnel.cli.verbs",
    }


def test_the_environment_names_the_broker() -> None:
    done = subprocess.run(
        command(("topic", "list")), capture_output=True, text=True, env=environment("127.0.0.1:1"), check=False
    )
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
