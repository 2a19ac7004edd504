"""Running the command: in this process where that shows the same, as a process where it does not."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from runnel.cli.main import cli

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
def runnel(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runnel:
    """`runnel("topic", "list", stdin=b"...")` runs to the end, in this process but with real files as its streams."""
    monkeypatch.setenv("RUNNEL_BOOTSTRAP", bootstrap)
    monkeypatch.delenv("RUNNEL_DEBUG", raising=False)
    places = [tmp_path / f".{name}" for name in ("stdin", "stdout", "stderr")]

    def run(*arguments: str, stdin: bytes = b"") -> Finished:
        places[0].write_bytes(stdin)
        with places[0].open("rb") as source, places[1].open("wb") as output, places[2].open("wb") as errors:
            exit_code = _run_main(arguments, source, output, errors)
        finished = Finished(exit_code, places[1].read_bytes(), places[2].read_text())
        assert "Traceback" not in finished.errors, finished.errors
        return finished

    return run


def _run_main(arguments: tuple[str, ...], source: BinaryIO, output: BinaryIO, errors: BinaryIO) -> int:
    kept = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = map(io.TextIOWrapper, (source, output, errors))
    try:
        cli.main(list(arguments), prog_name="runnel")
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for wrapper in (sys.stdin, sys.stdout, sys.stderr):
            wrapper.detach()
        sys.stdin, sys.stdout, sys.stderr = kept


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
