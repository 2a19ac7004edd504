"""Running the command as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Finished:
    exit_code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def document(self) -> Any:
        return json.loads(self.output)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    def ok(self) -> Finished:
        assert self.exit_code == 0, self.errors
        return self


Runnel = Callable[..., Finished]
StartRunnel = Callable[..., "subprocess.Popen[bytes]"]


def command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "runnel", *arguments]


def environment(bootstrap: str | None, extra: dict[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RUNNEL_")}
    return {**kept, **({"RUNNEL_BOOTSTRAP": bootstrap} if bootstrap else {}), **(extra or {})}


@pytest.fixture
def runnel(bootstrap: str) -> Runnel:
    """`runnel("topic", "list", stdin=b"...")` runs to the end."""

    def run(*arguments: str, stdin: bytes = b"", environ: dict[str, str] | None = None) -> Finished:
        done = subprocess.run(
            command(arguments),
            input=stdin,
            capture_output=True,
            timeout=DEADLINE_S,
            env=environment(bootstrap, environ),
            check=False,
        )
        finished = Finished(done.returncode, done.stdout, done.stderr.decode())
        assert "Traceback" not in finished.errors, finished.errors
        return finished

    return run


@pytest.fixture
def start_runnel(bootstrap: str) -> StartRunnel:
    """The same without waiting, with pipes on all three sides."""

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(bootstrap),
        )

    return start
