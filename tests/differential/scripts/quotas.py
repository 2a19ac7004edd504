"""DescribeClientQuotas (48), AlterClientQuotas (49), and the SCRAM credentials of users (50, 51)."""

from __future__ import annotations

from typing import Any

from differential.plays import Play, scenario

DESCRIBE_QUOTAS, ALTER_QUOTAS, DESCRIBE_SCRAM, ALTER_SCRAM = 48, 49, 50, 51
EXACT, DEFAULT, ANY = 0, 1, 2
SHA_256, SHA_512 = 1, 2


def alter(
    play: Play, entity: dict[str, str | None], *ops: tuple[str, float, bool], validate_only: bool = False
) -> None:
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    rows = [{"key": key, "value": value, "remove": remove} for key, value, remove in ops]
    version = play.version if play.api_key == ALTER_QUOTAS else 1
    play.both.ask(ALTER_QUOTAS, version, {"entries": [{"entity": parts, "ops": rows}], "validate_only": validate_only})


def describe(play: Play, *components: tuple[str, int, str | None], strict: bool = False) -> None:
    rows = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components]
    version = play.version if play.api_key == DESCRIBE_QUOTAS else 1
    play.both.ask(DESCRIBE_QUOTAS, version, {"components": rows, "strict": strict}, settle=True)


@scenario(ALTER_QUOTAS)
def alter_quotas(play: Play) -> None:
    user = play.name("user")
    alter(play, {"user": user}, ("producer_byte_rate", 1e9, False), validate_only=True)
    describe(play, ("user", EXACT, user))
    alter(play, {"user": user}, ("producer_byte_rate", 1e9, False), ("request_percentage", 250.5, False))
    alter(play, {"user": user, "client-id": user}, ("consumer_byte_rate", 2e9, False))
    describe(play, ("user", EXACT, user))
    alter(play, {"user": user}, ("producer_byte_rate", 0, True), ("nope", 0, True))
    describe(play, ("user", EXACT, user))
    for ops in (
        (("nope", 1.0, False),),
        (("producer_byte_rate", -1.0, False),),
        (("producer_byte_rate", 0.0, False),),
        (("producer_byte_rate", 0.5, False),),
        (("producer_byte_rate", 1e300, False),),
        (("connection_creation_rate", 10.0, False),),
        (("controller_mutation_rate", 0.5, False),),
        (("producer_byte_rate", 1e9, False), ("producer_byte_rate", 2e9, False)),
        (),
    ):
        alter(play, {"user": user}, *ops)
    for entity in (
        {"nope": "x"},
        {},
        {"user": ""},
        {"ip": "not an address"},
        {"user": user, "ip": "10.0.0.1"},
        {"": "x"},
    ):
        alter(play, entity, ("producer_byte_rate", 1e9, False))
    alter(play, {"ip": "10.0.0.1"}, ("connection_creation_rate", 100.0, False))
    alter(play, {"ip": "10.0.0.1"}, ("producer_byte_rate", 100.0, False))
    describe(play, ("ip", EXACT, "10.0.0.1"))
    play.ask({"entries": []})


@scenario(DESCRIBE_QUOTAS)
def describe_quotas(play: Play) -> None:
    one, two = play.name("one"), play.name("two")
    alter(play, {"user": one}, ("producer_byte_rate", 1e9, False))
    alter(play, {"user": two, "client-id": one}, ("producer_byte_rate", 2e9, False))
    for strict in (False, True):
        describe(play, strict=strict)
        for components in (
            (("user", EXACT, one),),
            (("user", EXACT, two),),
            (("user", EXACT, "nobody"),),
            (("user", EXACT, None),),
            (("user", DEFAULT, None),),
            (("user", ANY, None),),
            (("user", EXACT, two), ("client-id", EXACT, one)),
            (("user", ANY, None), ("client-id", ANY, None)),
            (("client-id", EXACT, one),),
            (("nope", ANY, None),),
            (("", ANY, None),),
            (("user", 7, None),),
            (("user", ANY, None), ("user", ANY, None)),
            (("ip", ANY, None),),
            (("user", ANY, None), ("ip", ANY, None)),
        ):
            describe(play, *components, strict=strict)


def upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096, **options: Any) -> dict[str, Any]:
    row = {"name": name, "mechanism": mechanism, "iterations": iterations}
    return {**row, "salt": b"salt" * 4, "salted_password": b"p" * 32, **options}


@scenario(ALTER_SCRAM)
def alter_credentials(play: Play) -> None:
    user, other = play.name("user"), play.name("other")

    def change(*upserts: dict[str, Any], deletions: tuple[tuple[str, int], ...] = ()) -> None:
        rows = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions]
        play.ask({"upsertions": list(upserts), "deletions": rows})

    change()
    change(deletions=((user, SHA_256),))
    for bad in (
        upsert(user, iterations=4095),
        upsert(user, iterations=16_385),
        upsert(user, iterations=0),
        upsert(user, 0),
        upsert(user, 3),
        upsert(""),
        upsert(user, salted_password=b""),
        upsert(user, salt=b""),
    ):
        change(bad)
    change(upsert(user), upsert(user))
    change(upsert(user), upsert(user, SHA_512))
    change(upsert(user), deletions=((user, SHA_256),))
    change(upsert(user), upsert(other, iterations=1))
    described(play, None)
    change(upsert(user, iterations=8192))
    described(play, [user, other, "nobody", user])
    change(deletions=((user, SHA_256), (other, SHA_256)))
    change(deletions=((user, SHA_256), (user, SHA_256)))
    change(deletions=((user, 9), ("", SHA_256)))
    described(play, [user])


def described(play: Play, users: list[str] | None) -> None:
    rows = None if users is None else [{"name": name} for name in users]
    play.both.ask(DESCRIBE_SCRAM, 0, {"users": rows}, settle=True)


@scenario(DESCRIBE_SCRAM)
def describe_credentials(play: Play) -> None:
    user = play.name("user")
    play.both.ask(ALTER_SCRAM, 0, {"upsertions": [upsert(user), upsert(user, SHA_512)], "deletions": []})
    for users in (None, [], [user], ["nobody"], [""], [user, user], [user, "nobody"]):
        described(play, users)
