"""Java consumers in one JVM (`Members.java`), and what they hold, as they are told it. Two holders of one partition at
the same time fail the test at once."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.conditions import wait_until
from java.jars import JVM_FLAGS, Java

SOURCE = Path(__file__).with_name("Members.java")
STOP_SECONDS = 60


class JavaMembers:
    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.held: dict[str, set[str]] = {}
        self.records: list[tuple[str, str, int, int]] = []
        self.rebalances: dict[str, int] = {}
        self.problems: list[str] = []
        self.stopped: set[str] = set()
        self._errors: list[str] = []
        self._threads = [threading.Thread(target=self._listen), threading.Thread(target=self._listen_to_errors)]
        for thread in self._threads:
            thread.start()

    # --- driving ----------------------------------------------------------------------------------------------

    def start(self, name: str, group: str, topics: str, protocol: str, instance: str = "-", **properties: str) -> None:
        pairs = " ".join(f"{key.replace('_', '.')}={value}" for key, value in properties.items())
        self.held[name] = set()
        self._say(f"start {name} {group} {protocol} {instance} {topics} {pairs}")

    def stop(self, name: str) -> None:
        self._say(f"stop {name}")
        wait_until(lambda: name in self.stopped or self.problems, f"{name} has stopped")
        self.held.pop(name, None)

    def _say(self, line: str) -> None:
        if self._process.stdin is None:
            raise AssertionError("the JVM has no stdin")
        self._process.stdin.write(f"{line.strip()}\n")
        self._process.stdin.flush()

    def wait_for(self, names: list[str], partitions: set[str], what: str, *, even: bool = True) -> None:
        """Until these members, and nobody else, hold these partitions between them."""

        def holds() -> bool:
            self.check()
            loads = [len(self.held[name]) for name in names]
            is_even = not even or max(loads) - min(loads) <= 1
            return is_even and set().union(*self.held.values()) == partitions

        wait_until(holds, f"{what}: {partitions} by {names}; now {self.held}; {self._errors[-5:]}")

    def check(self) -> None:
        if self.problems:
            raise AssertionError(f"{self.problems}\n{''.join(self._errors[-20:])}")

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self.problems.append("the JVM did not stop")
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    # --- listening --------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            what, name, *rest = line.split()
            if what == "record":
                self._consumed(name, rest[0], int(rest[1]), int(rest[2]))
            elif what == "assigned":
                self._assigned(name, set(rest))
            elif what in ("revoked", "lost"):
                self.held.setdefault(name, set()).difference_update(rest)
                if what == "lost" and rest:
                    self.problems.append(line)
            elif what == "stopped":
                self.stopped.add(name)
            elif what == "failed":
                self.problems.append(line)

    def _listen_to_errors(self) -> None:
        self._errors += self._process.stderr or ()

    def _assigned(self, name: str, places: set[str]) -> None:
        self.rebalances[name] = self.rebalances.get(name, 0) + 1
        for other, held in self.held.items():
            if other != name and not held.isdisjoint(places):
                self.problems.append(f"{name} was given {places} while {other} has {held}")
        self.held.setdefault(name, set()).update(places)

    def _consumed(self, name: str, topic: str, partition: int, offset: int) -> None:
        self.records.append((name, topic, partition, offset))
        if f"{topic}-{partition}" not in self.held.get(name, ()):
            self.problems.append(f"{name} processed {topic}-{partition} at {offset} without holding it")


@contextmanager
def java_members(java: Java, classes: Path, bootstrap: str) -> Iterator[JavaMembers]:
    command = [java.executable, *JVM_FLAGS, "-cp", f"{classes}:{java.libs}/*", "Members", bootstrap]
    members = JavaMembers(command)
    try:
        yield members
    finally:
        members.close()
    members.check()
