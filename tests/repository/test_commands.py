"""The commands that pages and the Makefile show are ones that there are: verbs and options, without running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from runnel.cli.main import cli

ROOT = Path(__file__).parent.parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TARGETS = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[1].split()  # type: ignore[index]


def shown(page: Path) -> Iterator[list[str]]:
    """What follows `runnel` in the blocks of shell commands of a page; in those of a console, behind its prompt."""
    for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```", page.read_text(), re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if kind == "sh" or line.startswith("$ "):
                yield from runnel_commands(line)


def runnel_commands(line: str) -> Iterator[list[str]]:
    words = shlex.shlex(line, posix=True, punctuation_chars="|<>&")
    words.whitespace_split = True
    command: list[str] = []
    for word in [*words, "|"]:
        if not set(word) <= set("|<>&"):
            command.append(word)
            continue
        if "runnel" in command:
            yield command[command.index("runnel") + 1 :]
        command = []


def test_commands_are_found_in_lines() -> None:
    line = "$ A=1 runnel a --b 'c | d' | runnel e -K : < f > g  # runnel h"
    assert list(runnel_commands(line)) == [["a", "--b", "c | d"], ["e", "-K", ":"]]


def assert_understood(command: list[str]) -> None:
    """`--help` ends a command before it does anything, but not before its options are known."""
    done = CliRunner().invoke(cli, [*command, "--help"])
    assert (done.exit_code, "Usage:" in done.output) == (0, True), f"runnel {shlex.join(command)}: {done.output}"


def test_what_does_not_exist_is_not_understood() -> None:
    for command in (["lake", "verfy", "x"], ["demo", "--ones"]):
        with pytest.raises(AssertionError):
            assert_understood(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_pages_are_understood(page: Path) -> None:
    for command in shown(page):
        assert_understood(command)


def test_commands_of_the_makefile_are_understood() -> None:
    commands = re.findall(r"\$\(BIN\)/runnel (.*)", MAKEFILE)
    assert len(commands) == 3
    for command in commands:
        assert_understood(shlex.split(command))


def test_make_help_lists_every_verb_and_pages_name_no_other() -> None:
    assert sorted(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.M)) == sorted(TARGETS)
    for page in PAGES:
        code = re.findall(r"`([^`]+)`|^\$? ?(make .*)$", page.read_text(), re.M)
        named = {found for texts in code for text in texts for found in re.findall(r"^make ([a-z-]+)", text)}
        assert named <= {*TARGETS}, page.name
