"""Groups of consumer processes that come, leave and are killed, and the watch over what they committed.

In: a broker's address, a topic, a source of chance. Out: which records each group processed, and every committed offset
that went back or was forgotten after the broker had taken it.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from crash.load import Ledger, Watch
from harness.conditions import wait_until
from harness.raw import RawConnection

MEMBER = Path(__file__).with_name("member.py")
KINDS = ("eager", "cooperative", "consumer", "aiokafka")
MEMBERS_MAX = 3
OFFSET_FETCH = 9
NOT_YET = (14, 15, 16)  # the coordinator is loading or was not found: no answer about offsets


@dataclass(slots=True)
class Group:
    """What the members of one group did, whichever of them."""

    name: str
    kind: str
    processed: Counter[bytes] = field(default_factory=Counter)
    committed: dict[int, int] = field(default_factory=dict)  # the highest that the broker took, by partition
    members: list[Member] = field(default_factory=list)
    died: list[str] = field(default_factory=list)

    def note(self, line: bytes) -> None:
        word, rest = line.split(b" ", 1)
        if word == b"N":
            self.processed[rest.strip()] += 1
        else:
            partition, offset = map(int, rest.split())
            self.committed[partition] = max(offset, self.committed.get(partition, -1))


class Member:
    """One consumer process; a thread follows what it says."""

    def __init__(self, bootstrap: str, group: Group, topic: str) -> None:
        self._group = group
        command = [sys.executable, str(MEMBER), group.kind, bootstrap, group.name, topic]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        if self.process.stdout is None or self.process.stderr is None:
            raise RuntimeError("the member has no pipes")
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # a member killed while it wrote did not finish that record
                self._group.note(line)
        said = self.process.stderr.read().decode(errors="replace")
        if self.process.wait() > 0:
            self._group.died.append(said[-2000:])
        self.process.stdout.close()
        self.process.stderr.close()

    def end(self, deadline_seconds: float = 60.0) -> None:
        self._thread.join(deadline_seconds)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Crowd:
    """One group of each kind."""

    def __init__(self, bootstrap: str, topic: str, chance: random.Random) -> None:
        self.groups = [Group(f"group-{kind}", kind) for kind in KINDS]
        self.changes: Counter[str] = Counter()
        self._bootstrap, self._topic, self._chance = bootstrap, topic, chance
        self._gone: list[Member] = []
        for group in self.groups:
            self._join(group)
            self._join(group)

    def shake(self) -> None:
        """In about half of the groups a member comes, leaves or is killed; none is left without members."""
        for group in self.groups:
            changes = [self._leave, self._kill] if len(group.members) == MEMBERS_MAX else [self._join]
            if len(group.members) == 2:
                changes = [self._join, self._leave, self._kill]
            if self._chance.random() < 0.5:
                self._chance.choice(changes)(group)

    def _join(self, group: Group) -> None:
        self.changes["joined"] += 1
        group.members.append(Member(self._bootstrap, group, self._topic))

    def _leave(self, group: Group) -> None:
        self.changes["left"] += 1
        self._take(group).process.terminate()

    def _kill(self, group: Group) -> None:
        self.changes["killed"] += 1
        self._take(group).process.kill()

    def _take(self, group: Group) -> Member:
        member = group.members.pop(self._chance.randrange(len(group.members)))
        self._gone.append(member)
        return member

    def wait_for_progress(self, more: int) -> None:
        """Every group processes again, and all together so many more records."""
        before = [group.processed.total() for group in self.groups]

        def gains() -> list[int]:
            return [group.processed.total() - count for group, count in zip(self.groups, before, strict=True)]

        try:
            wait_until(lambda: min(now := gains()) > 0 and sum(now) >= more, f"{more} more records processed", 120)
        except AssertionError as late:
            by_group = {group.name: gain for group, gain in zip(self.groups, gains(), strict=True)}
            raise AssertionError(f"{late}; {by_group}, {self.died()}") from None

    def finish(self) -> None:
        members = [member for group in self.groups for member in group.members] + self._gone
        for member in members:
            member.process.terminate()
        for member in members:
            member.end()

    def died(self) -> list[str]:
        return [f"{group.name}: {text}" for group in self.groups for text in group.died]


def missing(groups: list[Group], ledgers: list[Ledger]) -> dict[str, list[str]]:
    """By group: the acknowledged records that it has not processed."""
    wanted = [f"{ledger.name}:{number}" for ledger in ledgers for number in sorted(ledger.acked)]
    return {group.name: [one for one in wanted if one.encode() not in group.processed] for group in groups}


class OffsetWatch(Watch):
    """The committed offsets of all groups, beside what the broker told their members that it took."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, groups: list[Group]) -> None:
        super().__init__(bootstrap)
        self._groups = groups
        asked = [{"name": topic, "partition_indexes": list(range(partitions))}]
        rows = [{"group_id": group.name, "member_id": None, "member_epoch": -1, "topics": asked} for group in groups]
        self._body = {"groups": rows, "require_stable": False}

    def wait_for_answers(self, more: int) -> None:
        """A while that is measured in answers, not in time."""
        target = self.asked + more
        wait_until(lambda: self.asked >= target, f"{more} more answers about offsets")

    def _ask(self, connection: RawConnection) -> None:
        # Taken before the question: what the broker said it has must be in its answer.
        promised = {
            (group.name, part): offset for group in self._groups for part, offset in list(group.committed.items())
        }
        for place, offset in promised.items():
            self.highest[place] = max(offset, self.highest.get(place, -1))
        for row in connection.request(OFFSET_FETCH, 9, self._body).groups:
            if row.error_code in NOT_YET:
                continue
            if row.error_code != 0:
                self.went_back.append(f"{row.group_id}: error {row.error_code}")
            for answer in (part for topic in row.topics for part in topic.partitions):
                self._note((row.group_id, answer.partition_index), int(answer.error_code), answer.committed_offset)
