"""The classic group protocol: JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14), DescribeGroups (15),
ListGroups (16), DeleteGroups (42)."""

from __future__ import annotations

from typing import Any

from differential.both import Pair
from differential.names import Name
from differential.plays import Play, scenario

JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE = 11, 12, 13, 14, 15, 16, 42
SUBSCRIPTION = b"\0\0\0\0\0\1\0\4used\xff\xff\xff\xff"
LATEST = {JOIN: 9, HEARTBEAT: 4, LEAVE: 5, SYNC: 5, DESCRIBE: 6, LIST: 5, DELETE: 2}


class Group:
    """A group that scripted members join; each member has a connection of its own. One API is played in a version of
    the scenario, the others in their latest."""

    def __init__(self, play: Play, suffix: str = "group") -> None:
        self.play = play
        self.group_id = play.name(suffix)
        self.generation = 0

    def version(self, api_key: int) -> int:
        return self.play.version if api_key == self.play.api_key else LATEST[api_key]

    def join_body(self, member: Name | str, **options: Any) -> dict[str, Any]:
        body = {
            "group_id": self.group_id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": member,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        }
        return {**body, **options}

    def ask(self, api_key: int, body: dict[str, Any], on: str = "main", settle: bool = False) -> Pair:
        return self.play.both.ask(
            api_key, self.version(api_key), {"group_id": self.group_id, **body}, on=on, settle=settle
        )

    def learn(self, name: str, pair: Pair) -> Name:
        return self.play.both.learn("member", f"{self.group_id}/{name}", pair, lambda reply: reply["member_id"])

    def first(self, name: str, **options: Any) -> Name:
        """The first join of a member; with version 4 and up it is told its id and joins again with it."""
        pair = self.ask(JOIN, self.join_body("", **options), on=name)
        member = self.learn(name, pair)
        if self.version(JOIN) >= 4 and options.get("group_instance_id") is None:
            self.ask(JOIN, self.join_body(member, **options), on=name)
        self.generation += 1
        return member

    def sync(
        self, member: Name | str, assignments: list[tuple[Name | str, bytes]], on: str = "main", **options: Any
    ) -> Pair:
        rows = [{"member_id": who, "assignment": what} for who, what in assignments]
        named = {"protocol_type": "consumer", "protocol_name": "range"}
        body = {"generation_id": self.generation, "member_id": member, "assignments": rows}
        return self.ask(SYNC, {**body, **named, **options}, on=on)

    def heartbeat(self, member: Name | str, generation: int | None = None, **options: Any) -> Pair:
        generation = self.generation if generation is None else generation
        return self.ask(HEARTBEAT, {"generation_id": generation, "member_id": member, **options})

    def leave(self, *members: tuple[Name | str, str | None]) -> Pair:
        if self.version(LEAVE) < 3:
            return self.ask(LEAVE, {"member_id": members[0][0]})
        rows = [{"member_id": member, "group_instance_id": instance} for member, instance in members]
        return self.ask(LEAVE, {"members": rows})

    def describe(self, **options: Any) -> Pair:
        version = self.version(DESCRIBE)
        return self.play.both.ask(DESCRIBE, version, {"groups": [self.group_id], **options})


@scenario(JOIN)
def join_refused(play: Play) -> None:
    group = Group(play)
    for options in (
        {"group_id": ""},
        {"session_timeout_ms": 1},
        {"session_timeout_ms": -1},
        {"session_timeout_ms": 2**31 - 1},
        {"protocols": []},
        {"protocol_type": ""},
        {"member_id": "stranger"},
        {"member_id": "stranger", "group_instance_id": "instance"},
        {"protocols": [{"name": "", "metadata": b""}], "member_id": "stranger"},
    ):
        play.ask(group.join_body("") | options)
    group.describe()


@scenario(JOIN)
def join_alone(play: Play) -> None:
    group = Group(play)
    member = group.first("one")
    group.describe()
    group.heartbeat(member)
    group.sync(member, [(member, b"all")])
    group.describe()
    play.ask(group.join_body(member), on="one")  # the leader joins again: a new generation
    group.generation += 1
    group.sync(member, [(member, b"all again")])
    play.ask(group.join_body(member, protocols=[{"name": "other", "metadata": b"x"}]), on="one")
    group.generation += 1
    group.describe()
    group.sync(member, [(member, b"")], protocol_name="other")
    play.ask(group.join_body(member, protocol_type="connect"), on="one")
    group.leave((member, None))
    group.describe()


@scenario(JOIN)
def join_in_pairs(play: Play) -> None:
    group = Group(play)
    one = group.first("one", protocols=_protocols("range", "roundrobin"))
    group.sync(one, [(one, b"all")])
    second = group.join_body("", protocols=_protocols("range", "sticky"))
    if play.version >= 4:
        two = group.learn("two", play.ask(second, on="two"))
        second = {**second, "member_id": two}
    play.both.send(JOIN, play.version, second, on="two")
    play.both.wait_for(lambda side: group_state(side, group.group_id) == "PreparingRebalance")
    group.describe()
    group.heartbeat(one)
    group.sync(one, [(one, b"stale")])
    play.ask(group.join_body("", protocols=_protocols("other")))
    first = group.join_body(one, protocols=_protocols("range", "roundrobin"))
    play.both.send(JOIN, play.version, first, on="one")
    pair = play.both.receive_named(JOIN, play.version, second, on="two", learn=lambda pair: group.learn("two", pair))
    two = group.learn("two", pair)
    play.both.receive(JOIN, play.version, first, on="one")
    group.generation += 1
    group.describe()
    group.sync(one, [(one, b"1"), (two, b"2")], on="one")
    group.sync(two, [], on="two")
    group.describe()
    group.heartbeat(two)
    play.ask(
        group.join_body(two, protocols=_protocols("range", "sticky")), on="two"
    )  # a follower, unchanged: as it was
    group.leave((one, None))
    group.leave((two, None))
    group.describe()


def _protocols(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "metadata": SUBSCRIPTION} for name in names]


def group_state(side: Any, group_id: str) -> str:
    state: str = side.ask(DESCRIBE, 6, {"groups": [group_id]}, "looking")["groups"][0]["group_state"]
    return state


@scenario(JOIN, lowest=5)
def join_static(play: Play) -> None:
    group = Group(play)
    one = group.first("one", group_instance_id="i")
    group.sync(one, [(one, b"all")], group_instance_id="i")
    again = play.ask(group.join_body("", group_instance_id="i"), on="again")
    two = group.learn("again", again)
    group.describe()
    group.heartbeat(one, group_instance_id="i")
    group.heartbeat(two, group_instance_id="i")
    group.heartbeat(two, group_instance_id="j")
    group.heartbeat(two)
    group.sync(one, [], group_instance_id="i")
    group.sync(two, [], group_instance_id="i")
    play.ask(group.join_body(one, group_instance_id="i"))
    play.ask(group.join_body("stranger", group_instance_id="i"))
    group.leave((one, "i"))
    group.leave(("", "nobody"))
    group.leave(("", "i"))
    group.describe()


@scenario(HEARTBEAT)
def heartbeats(play: Play) -> None:
    group = Group(play)
    one = group.first("one")
    group.heartbeat(one)
    group.sync(one, [(one, b"")])
    for generation in (0, 1, 2, -1, 99):
        group.heartbeat(one, generation)
    group.heartbeat("stranger")
    group.heartbeat("")
    group.heartbeat(one, group_instance_id="nobody")
    group.heartbeat(one, group_id="")
    group.heartbeat(one, group_id="nobody")
    group.leave((one, None))
    group.heartbeat(one)


@scenario(SYNC)
def syncs(play: Play) -> None:
    group = Group(play)
    one = group.first("one")
    group.sync("stranger", [])
    group.sync("", [])
    for generation in (0, 2, -1):
        group.sync(one, [], generation_id=generation)
    for options in (
        {"protocol_type": "connect"},
        {"protocol_name": "sticky"},
        {"protocol_type": None},
        {"protocol_name": None},
        {"protocol_type": None, "protocol_name": None},
        {"group_instance_id": "nobody"},
        {"group_id": ""},
        {"group_id": "nobody"},
    ):
        if play.version >= 5 or not {"protocol_type", "protocol_name", "group_instance_id"} & options.keys():
            group.sync(one, [], **options)
    group.sync(one, [("stranger", b"x")])  # nothing for oneself
    group.sync(one, [(one, b"too late")])
    group.describe()


@scenario(LEAVE)
def leaves(play: Play) -> None:
    group = Group(play)
    one = group.first("one")
    group.sync(one, [(one, b"all")])
    group.leave(("stranger", None))
    group.leave(("", None))
    group.ask(
        LEAVE,
        {"group_id": "", "member_id": one, "members": [{"member_id": one}]}
        if play.version >= 3
        else {"group_id": "", "member_id": one},
    )
    group.ask(
        LEAVE,
        {"group_id": "nobody", "members": [{"member_id": "x"}]}
        if play.version >= 3
        else {"group_id": "nobody", "member_id": "x"},
    )
    group.describe()
    if play.version >= 3:
        group.leave()
        group.leave(("stranger", None), (one, "instance"), ("", "nobody"))
        group.leave(("stranger", None), (one, None))
    else:
        group.leave((one, None))
    group.describe()
    group.leave((one, None))


@scenario(DESCRIBE)
def describes(play: Play) -> None:
    def ask(*groups: str, **options: Any) -> None:
        play.ask({"groups": list(groups), **options})

    ask()
    ask("nobody")
    ask("")
    ask("nobody", include_authorized_operations=True)
    ask("nobody", "nobody")
    group = Group(play)
    one = group.first("one", protocol_type="connect", protocols=[{"name": "v0", "metadata": b"\1\2"}])
    ask(group.group_id)
    group.sync(one, [(one, b"\3\4")], protocol_type="connect", protocol_name="v0")
    ask(group.group_id)
    ask(group.group_id, "nobody", include_authorized_operations=True)
    group.leave((one, None))
    ask(group.group_id)


@scenario(LIST)
def lists(play: Play) -> None:
    group = Group(play)
    for states, types in (
        ([], []),
        (["Stable"], []),
        (["stable"], []),
        (["Empty", "CompletingRebalance"], []),
        (["nonsense"], []),
        ([""], []),
        ([], ["classic"]),
        ([], ["Classic"]),
        ([], ["consumer"]),
        ([], ["nonsense"]),
        ([], ["share"]),
    ):
        play.ask({"states_filter": states, "types_filter": types}, settle=True)
    one = group.first("one")
    play.ask({}, settle=True)
    play.ask({"states_filter": ["CompletingRebalance"]}, settle=True)
    group.leave((one, None))
    play.ask({}, settle=True)


@scenario(DELETE)
def deletes(play: Play) -> None:
    group = Group(play)
    one = group.first("one")

    def delete(*groups: str) -> None:
        play.ask({"groups_names": list(groups)})

    delete()
    delete("nobody")
    delete("")
    delete(group.group_id, "nobody")
    group.leave((one, None))
    delete(group.group_id, group.group_id)
    delete(group.group_id)
    group.describe()
