"""Where rounds of compaction run: in a child process for real files, in a thread for files in memory.

The work is Python, record by record: in a thread it would take the interpreter from the event loop for most of the
time, so producers would wait. The child is started for the first round, serves the next ones, and is ended when
there is nothing to do. It never outlives the broker: it ends when its standard input does.

One object is one round. `next` blocks and belongs in a thread; `abort` may be called from any other.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from runnel.storage.compaction.cleaning import CannotClean, Cleaned, Job, Source, Summary, clean
from runnel.storage.compaction.pace import Stopped, Throttle
from runnel.storage.errors import StorageError
from runnel.storage.files import Files

CHILD_MODULE = "runnel.storage.compaction.child"
END_TIMEOUT_S = 10.0


class ChildDied(StorageError):
    """The process that did the work is gone; the next round starts another."""


class Round(Protocol):
    def next(self) -> Cleaned | Summary:
        """Blocking. Stopped after `abort`; CannotClean, ChildDied or OSError where the round ends in an error."""

    def abort(self) -> None:
        """End the round soon; when `next` has then returned or raised, nothing writes any more."""


class Runner(Protocol):
    def start(self, job: Job) -> Round: ...

    def rest(self) -> None:
        """Blocking. There is nothing to do for now: give back what rounds need."""


# --- in this process ----------------------------------------------------------------------------------------------


class ThreadRunner:
    def __init__(self, files: Files) -> None:
        self._files = files

    def start(self, job: Job) -> Round:
        return ThreadRound(job, self._files)

    def rest(self) -> None:
        return None


class ThreadRound:
    def __init__(self, job: Job, files: Files) -> None:
        self._aborted = threading.Event()
        self._found = clean(job, files, Throttle(job.io_bytes_per_s, self._aborted.wait))

    def next(self) -> Cleaned | Summary:
        if self._aborted.is_set():
            raise Stopped
        return next(self._found)

    def abort(self) -> None:
        self._aborted.set()


# --- in a child process -------------------------------------------------------------------------------------------


class ProcessRunner:
    def __init__(self) -> None:
        self._child: Child | None = None

    def start(self, job: Job) -> Round:
        return ProcessRound(self, job)

    def child(self) -> Child:
        """The child, alive: another one if the last has gone."""
        if self._child is None or not self._child.is_alive:
            self.rest()
            self._child = Child()
        return self._child

    def rest(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


class ProcessRound:
    def __init__(self, runner: ProcessRunner, job: Job) -> None:
        self._runner = runner
        self._job = job
        self._guard = threading.Lock()
        self._aborted = False
        self._child: Child | None = None
        self._is_over = False

    def next(self) -> Cleaned | Summary:
        if self._is_over:
            raise Stopped
        if self._child is None:
            child = self._runner.child()
            with self._guard:
                self._child = child
                if self._aborted:
                    child.kill()
            child.send(encode_job(self._job))
        line = self._child.receive()
        if not line:
            self._is_over = True
            code = self._child.end()
            if self._aborted:
                raise Stopped
            raise ChildDied(f"the process that compacts ended with code {code}")
        return decode_answer(line)

    def abort(self) -> None:
        with self._guard:
            self._aborted = True
            if self._child is not None:
                self._child.kill()


def child_command() -> list[str]:
    """With nothing of the current folder on the path (-P), and our own package found wherever it lies."""
    root = str(Path(__file__).parents[3])
    code = f"import sys; sys.path.append({root!r}); from {CHILD_MODULE} import main; main()"
    return [sys.executable, "-P", "-c", code]


class Child:
    """One process; its standard input is its lifeline."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            child_command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the broker, which then ends the child
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def process_id(self) -> int:
        return self._process.pid

    def send(self, line: bytes) -> None:
        if self._process.stdin is not None:
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except BrokenPipeError:
                pass  # it is gone: `receive` finds that out

    def receive(self) -> bytes:
        """The next line; empty when the process has ended."""
        return self._process.stdout.readline() if self._process.stdout is not None else b""

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> int:
        """Let it end, or make it; its exit code."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        try:
            return self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


# --- what travels -------------------------------------------------------------------------------------------------


def encode_job(job: Job) -> bytes:
    return json.dumps(dataclasses.asdict(job)).encode() + b"\n"


def decode_job(line: bytes) -> Job:
    values: dict[str, Any] = json.loads(line)
    values["sources"] = [Source(*row) for row in values["sources"]]
    values["producers"] = {int(producer_id): offset for producer_id, offset in values["producers"].items()}
    return Job(**values)


def encode_answers(found: Iterator[Cleaned | Summary]) -> Iterator[bytes]:
    """A line for each; an error is the last."""
    try:
        for each in found:
            kind = "cleaned" if isinstance(each, Cleaned) else "summary"
            yield json.dumps([kind, *each]).encode() + b"\n"
    except CannotClean as error:
        yield json.dumps(["cannot", str(error)]).encode() + b"\n"
    except OSError as error:
        row = ["error", error.errno, error.strerror or str(error), str(error.filename or "")]
        yield json.dumps(row).encode() + b"\n"


def decode_answer(line: bytes) -> Cleaned | Summary:
    kind, *values = json.loads(line)
    if kind == "cleaned":
        return Cleaned([Source(*row) for row in values[0]], values[1])
    if kind == "summary":
        return Summary(*values)
    if kind == "cannot":
        raise CannotClean(values[0])
    raise OSError(*values)
