"""Members of both protocols in one group, behaving at random: they come, go, crash, restart with the other protocol,
while topics change, time passes and the coordinator crashes. The model is the clients: what they believe to own.

At every step no partition is owned by two of them; epochs only grow; the log holds everything. When everybody behaves
again, all have what they should, every partition once.
"""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

from classic_member import ClassicConsumer
from consumer_cluster import Cluster, Consumer
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runnel.core.groups import GroupMachine, HeartbeatReply
from runnel.core.groups.classic.group import ClassicGroup
from runnel.core.groups.consumer.group import ConsumerGroup

SLOTS = st.integers(0, 4)
KINDS = st.sampled_from(["consumer", "cooperative", "eager"])
INSTANCES = (None, None, None, "one", "two")
TOPICS = (("t",), ("t", "u"), ("t", "u"), ("t",), ("u",))
CLASSIC_SESSION_MS = 10_000
CONSUMER_SILENCE_MS = 30_000
"""The rebalance timeout of the members, which is below their session's."""
ROUNDS_TO_CONVERGE = 120
ROUND_MS = 1_000


class SlowConsumer(Consumer):
    """Takes its time between being told and doing: until then it has, and says that it has, what it had."""

    def __init__(self, cluster: Cluster, member_id: str, **options: Any) -> None:
        super().__init__(cluster, member_id, **options)
        self.heard_ms = cluster.now_ms
        self.lost_an_answer = False

    def _take(self, reply: HeartbeatReply) -> None:
        owned = self.owned
        super()._take(reply)
        self.heard_ms = self.cluster.now_ms
        if reply.assignment is not None:
            self.owned = owned

    def apply(self) -> None:
        self.owned = self.told

    def step(self, *, says_what_it_has: bool = True) -> None:
        if self.epoch == 0:
            self.join()
        elif self.lost_an_answer:
            self.say_everything()
        elif says_what_it_has:
            self.beat()
        else:
            reply = self.cluster.beat(self.member_id, self.epoch, instance_id=self.instance_id)
            self._take(reply)

    def say_everything(self) -> None:
        """As a client does after an error, whatever it is about to take."""
        self.lost_an_answer = False
        self.beat(topics=self.options["topics"], rebalance_timeout_ms=30_000)

    def lose_an_answer(self) -> None:
        if self.epoch:
            self.cluster.beat(self.member_id, self.epoch, owned=self.owned, instance_id=self.instance_id)
            self.lost_an_answer = True

    def expire(self) -> None:
        if self.cluster.now_ms - self.heard_ms >= CONSUMER_SILENCE_MS:
            self.epoch, self.owned, self.told = 0, {}, {}

    def places(self) -> set[tuple[str, int]]:
        names = self.cluster.names
        return {(names.get(t, str(t)), p) for t, ps in self.owned.items() for p in ps}


class TimedClassic(ClassicConsumer):
    def __init__(self, cluster: Cluster, **options: Any) -> None:
        super().__init__(cluster, **options)
        self.heard_ms = cluster.now_ms

    @property
    def is_waiting(self) -> bool:
        return self.join_token is not None or self.sync_token is not None

    def step(self) -> None:
        super().step()
        self.heard_ms = self.cluster.now_ms

    def expire(self) -> None:
        self.collect()
        if self.is_waiting:
            self.heard_ms = self.cluster.now_ms
        elif self.cluster.now_ms - self.heard_ms >= CLASSIC_SESSION_MS:
            self.owned, self.member_id, self.generation, self.must_rejoin = {}, "", -1, True

    def lose_connection(self) -> None:
        """Whatever was waited for will not be answered."""
        self.join_token = self.sync_token = None
        self.must_rejoin = True
        self.heard_ms = self.cluster.now_ms

    def places(self) -> set[tuple[str, int]]:
        return {(t, p) for t, ps in self.owned.items() for p in ps}


Client = SlowConsumer | TimedClassic


class BothProtocolsAtRandom(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.set_topic("t", 2)
        self.numbers = itertools.count()
        self.clients: list[Client | None] = [None] * len(INSTANCES)
        self.group: ConsumerGroup | None = None
        self.epoch = 0

    def _new(self, slot: int, kind: str) -> Client:
        instance_id, topics = INSTANCES[slot], TOPICS[slot]
        if kind == "consumer":
            options: dict[str, Any] = {} if instance_id is None else {"instance_id": instance_id}
            member_id = f"c{next(self.numbers)}"
            return SlowConsumer(self.cluster, member_id, topics=list(topics), **options)
        cooperative = kind == "cooperative"
        return TimedClassic(self.cluster, topics=topics, cooperative=cooperative, instance_id=instance_id)

    def _each(self) -> list[Client]:
        return [client for client in self.clients if client is not None]

    # --- what clients do --------------------------------------------------------------------------------------

    @rule(slot=SLOTS, kind=KINDS)
    def start(self, slot: int, kind: str) -> None:
        if self.clients[slot] is None:
            self.clients[slot] = self._new(slot, kind)

    @rule(slot=SLOTS)
    def step(self, slot: int) -> None:
        client = self.clients[slot]
        if client is not None:
            client.step()

    @rule(slot=SLOTS)
    def beat_without_a_word(self, slot: int) -> None:
        client = self.clients[slot]
        if isinstance(client, SlowConsumer):
            client.step(says_what_it_has=False)

    @rule(slot=SLOTS, loses=st.booleans())
    def say_everything(self, slot: int, loses: bool) -> None:
        client = self.clients[slot]
        if isinstance(client, SlowConsumer) and client.epoch:
            client.lose_an_answer() if loses else client.say_everything()

    @rule(slot=SLOTS)
    def apply(self, slot: int) -> None:
        client = self.clients[slot]
        if isinstance(client, SlowConsumer):
            client.apply()

    @rule()
    def everybody_steps(self) -> None:
        for client in self._each():
            client.step()

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        client = self.clients[slot]
        if isinstance(client, SlowConsumer) and client.epoch:
            client.leave(-1 if client.instance_id is None else -2)
        elif isinstance(client, TimedClassic) and client.instance_id is None:
            client.leave()
        self.clients[slot] = None

    @rule(slot=SLOTS)
    def die(self, slot: int) -> None:
        self.clients[slot] = None

    @rule(slot=SLOTS, kind=KINDS)
    def restart_with_another_protocol(self, slot: int, kind: str) -> None:
        self.leave(slot)
        self.start(slot, kind)
        self.step(slot)

    # --- what happens to them ---------------------------------------------------------------------------------

    @rule(partitions=st.integers(2, 5))
    def topic_grows(self, partitions: int) -> None:
        if partitions > len(self.cluster.topics["t"].partitions):
            self.cluster.set_topic("t", partitions)

    @rule()
    def topic_comes(self) -> None:
        if self.cluster._topic_number < 2:
            self.cluster.set_topic("u", 2)

    @rule()
    def topic_goes(self) -> None:
        self.cluster.delete_topic("u")

    @rule(milliseconds=st.sampled_from([1, 3_000, 9_000, 11_000, 31_000, 46_000]))
    def time_passes(self, milliseconds: int) -> None:
        for client in self._each():
            if isinstance(client, SlowConsumer):
                client.apply()
        self.cluster.advance(milliseconds)
        for client in self._each():
            client.expire()

    @rule()
    def crash(self) -> None:
        before = snapshot(self.cluster.machine)
        self.cluster.restart()
        assert snapshot(self.cluster.machine) == before
        for client in self._each():
            if isinstance(client, TimedClassic) and client.is_waiting:
                client.lose_connection()

    # --- what must hold ---------------------------------------------------------------------------------------

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        for client in self._each():
            if isinstance(client, TimedClassic):
                client.collect()
        owned = [client.places() for client in self._each()]
        assert sum(map(len, owned)) == len(set().union(*owned)), owned

    @invariant()
    def nothing_is_handed_out_twice(self) -> None:
        group = self.cluster.machine.groups.get("g")
        if isinstance(group, ConsumerGroup):
            held = [place for current in group.current.values() for place in held_by(current)]
            assert len(held) == len(set(held))
            assert {(t, p) for t, ps in group.owners.items() for p in ps} == set(held)

    @invariant()
    def epochs_only_grow(self) -> None:
        group = self.cluster.machine.groups.get("g")
        if not isinstance(group, ConsumerGroup):
            return
        if group is self.group:  # an empty one may have made place for another
            assert group.epoch >= self.epoch
        assert group.target_epoch <= group.epoch
        assert all(current.epoch <= group.epoch for current in group.current.values())
        self.group, self.epoch = group, group.epoch

    def teardown(self) -> None:
        """Everybody behaves: all converge, those that can live together."""
        for client in self._each():
            if isinstance(client, TimedClassic):
                client.must_rejoin = True  # a classic leader finds new topics by itself
        for _ in range(ROUNDS_TO_CONVERGE):
            for client in self._each():
                client.step()
                if isinstance(client, SlowConsumer):
                    client.apply()
                self.no_partition_has_two_owners()
            self.cluster.advance(ROUND_MS)
            for client in self._each():
                client.expire()
        self._check_that_all_is_assigned()

    def _check_that_all_is_assigned(self) -> None:
        group = self.cluster.machine.groups.get("g")
        members = [client for client in self._each() if group is not None and client.member_id in group.members]
        if not members:
            assert not self._each(), "somebody must have got in"
            return
        assert self.cluster.state() == "Stable"
        wanted = {topic for client in members for topic in self._topics_of(client)}
        partitions = {
            (name, number)
            for name, topic in self.cluster.topics.items()
            if name in wanted
            for number in range(len(topic.partitions))
        }
        assert set().union(*(client.places() for client in members)) >= partitions

    def _topics_of(self, client: Client) -> tuple[str, ...]:
        return TOPICS[self.clients.index(client)]


def held_by(current: Any) -> list[tuple[UUID, int]]:
    return [(t, p) for owned in (current.assigned, current.revoking) for t, ps in owned.items() for p in ps]


def snapshot(machine: GroupMachine) -> dict[str, Any]:
    """Everything that the log must hold: consumer groups as a whole, of classic ones what their record has."""
    soft = {"topics_seen", "regexes_seen", "regexes_seen_ms"}
    found: dict[str, Any] = {}
    for group_id, group in machine.groups.items():
        if isinstance(group, ClassicGroup):
            found[group_id] = "classic"
        else:
            names = [name for name in ConsumerGroup.__slots__ if name not in soft]
            found[group_id] = {name: getattr(group, name) for name in names}
    return found


BothProtocolsAtRandom.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBothProtocolsAtRandom = BothProtocolsAtRandom.TestCase
