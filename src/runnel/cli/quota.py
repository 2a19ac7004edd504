"""`runnel quota list|describe|set|unset`: limits of users, client ids and addresses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from runnel.cli.options import Decorated, bootstrap_options, json_option
from runnel.cli.outcomes import error_fields, tell
from runnel.cli.output import note, print_json, print_table
from runnel.cli.session import run
from runnel.cli.verbs import Verbs
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.quotas import (
    CLIENT_ID,
    CLIENT_KEYS,
    DEFAULT,
    ENTITY_TYPES,
    IP,
    IP_KEYS,
    USER,
    Entity,
    Quota,
    alter_quotas,
    applied_quotas,
    describe_quotas,
    entity_name,
    make_entity,
)

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?b?|b)?", re.IGNORECASE)
_POWERS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@click.group(cls=Verbs, short_help="Limit users, clients and addresses.")
@bootstrap_options
def quota() -> None:
    """Quotas: what users, client ids and addresses may take of the brokers.

    \b
    producer_byte_rate        bytes per second that may be produced
    consumer_byte_rate        bytes per second that may be fetched
    request_percentage        percent of one thread's time that requests may take
    controller_mutation_rate  partitions per second that may be created or deleted
    connection_creation_rate  connections per second that may be opened (of addresses)
    """


def _entity_options(function: Decorated) -> Decorated:
    for option in reversed(
        (
            click.option("-u", "--user", metavar="NAME", help="A user."),
            click.option("-c", "--client-id", metavar="ID", help="A client id."),
            click.option("--ip", metavar="ADDRESS", help="An address that connections come from."),
            click.option(
                "--default",
                "defaults",
                multiple=True,
                type=click.Choice(ENTITY_TYPES),
                help="What applies to all others.",
            ),
            click.option("--user-defaults", is_flag=True, hidden=True),
            click.option("--client-defaults", is_flag=True, hidden=True),
            click.option("--ip-defaults", is_flag=True, hidden=True),
        )
    ):
        function = option(function)
    return function


def _chosen(options: Mapping[str, Any]) -> dict[str, str | None]:
    """The parts of an entity that the options name."""
    parts: dict[str, str | None] = {}
    asked = (
        *((kind, options[name]) for kind, name in ((USER, "user"), (CLIENT_ID, "client_id"), (IP, "ip"))
          if options[name] is not None),
        *((kind, DEFAULT) for kind in options["defaults"]),
        *((kind, DEFAULT) for kind, name in ((USER, "user"), (CLIENT_ID, "client"), (IP, "ip"))
          if options[f"{name}_defaults"]),
    )  # fmt: skip
    for kind, name in asked:
        if kind in parts:
            raise click.UsageError(f"{kind} was named twice")
        if name == "":
            raise click.UsageError(f"a {kind} needs a name; `--default {kind}` is for all others")
        parts[kind] = name
    if IP in parts and len(parts) > 1:
        raise click.UsageError("quotas of addresses stand alone: --ip does not go with --user or --client-id")
    return parts


def _chosen_entity(options: Mapping[str, Any]) -> Entity:
    parts = _chosen(options)
    if not parts:
        raise click.UsageError("say whose quota: --user, --client-id, --ip, or --default user|client-id|ip")
    return make_entity(parts)


# Looking --------------------------------------------------------------------------------------------------


@quota.command("list")
@_entity_options
@json_option
@bootstrap_options
def list_verb(as_json: bool, **options: Any) -> None:
    """Every quota that is set; with options, those that name that user, client id or address."""
    parts = _chosen(options)
    quotas = run(lambda cluster: describe_quotas(cluster, parts))
    if as_json:
        print_json([_document(each) for each in quotas])
    elif not quotas:
        note("no quotas are set" + (" there" if parts else "; `runnel quota set` sets one"))
    else:
        rows = [
            (*(_cell(dict(each.entity), kind) for kind in ENTITY_TYPES), key, _number(value))
            for each in quotas
            for key, value in each.values.items()
        ]
        print_table(["user", "client id", "ip", "quota", "value"], rows)


def _cell(parts: Mapping[str, str | None], kind: str) -> str:
    return "-" if kind not in parts else parts[kind] or "(default)"


@quota.command()
@_entity_options
@json_option
@bootstrap_options
def describe(as_json: bool, **options: Any) -> None:
    """What limits this user, client id or address, and which quota that comes from.

    \b
    runnel quota describe --user alice --client-id reports
    """
    if any(options[name] for name in ("defaults", "user_defaults", "client_defaults", "ip_defaults")):
        raise click.UsageError("name a user, a client id or an address; `runnel quota list` shows defaults")
    parts = _chosen(options)
    if not parts:
        raise click.UsageError("say whose quotas: --user, --client-id or --ip; `runnel quota list` shows all")
    quotas = run(describe_quotas)
    found = applied_quotas(quotas, parts.get(USER), parts.get(CLIENT_ID), parts.get(IP))
    keys = IP_KEYS if IP in parts else CLIENT_KEYS
    rows = [(key, found.get(key), keys[key]) for key in keys]
    if as_json:
        print_json(
            {
                "entity": _entity_document(make_entity(parts)),
                "quotas": [
                    {
                        "quota": key,
                        "value": applied.value if applied else None,
                        "from": _entity_document(applied.entity) if applied else None,
                    }
                    for key, applied, _ in rows
                ],
            }
        )
        return
    print_table(
        ["quota", "value", "set for", "what it limits"],
        [
            (key, _number(applied.value) if applied else "-", entity_name(applied.entity) if applied else "-", what)
            for key, applied, what in rows
        ],
    )


# Changing -------------------------------------------------------------------------------------------------


@quota.command("set")
@click.argument("settings", metavar="QUOTA=VALUE...", nargs=-1, required=True)
@_entity_options
@click.option("--dry-run", is_flag=True, help="Let the broker check the change, and change nothing.")
@json_option
@bootstrap_options
def set_verb(settings: tuple[str, ...], dry_run: bool, as_json: bool, **options: Any) -> int:
    """Set limits. Byte rates may have units: 10MiB, 500kB.

    \b
    runnel quota set --user alice producer_byte_rate=10MiB
    runnel quota set --default client-id request_percentage=50
    runnel quota set --ip 10.0.0.7 connection_creation_rate=5
    """
    entity = _chosen_entity(options)
    changes = dict(_parse_setting(setting, entity) for setting in settings)
    return _alter(entity, changes, "would set" if dry_run else "set", dry_run, as_json)


@quota.command()
@click.argument("keys", metavar="[QUOTA]...", nargs=-1)
@_entity_options
@click.option("-a", "--all", "everything", is_flag=True, help="All that are set.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the change, and change nothing.")
@json_option
@bootstrap_options
def unset(keys: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool, **options: Any) -> int:
    """Take limits away."""
    entity = _chosen_entity(options)
    if bool(keys) == everything:
        raise click.UsageError("name the quotas to take away, or give --all")
    for key in keys:
        _check_key(key, entity)
    names = keys or tuple(run(lambda cluster: _keys_of(cluster, entity)))
    if not names:
        note(f"no quota is set for {entity_name(entity)}")
        return 0
    return _alter(entity, dict.fromkeys(names), "would unset" if dry_run else "unset", dry_run, as_json)


async def _keys_of(cluster: Cluster, entity: Entity) -> list[str]:
    quotas = await describe_quotas(cluster, dict(entity), strict=True)
    return [key for each in quotas for key in each.values]


def _alter(entity: Entity, changes: Mapping[str, float | None], done: str, dry_run: bool, as_json: bool) -> int:
    error: ClientError | None = run(lambda cluster: alter_quotas(cluster, entity, changes, validate_only=dry_run))
    if as_json:
        print_json({"entity": _entity_document(entity), **error_fields(error)})
    return tell([(f"{done} {', '.join(changes)} of {entity_name(entity)}", error)], as_json=as_json)


def _parse_setting(setting: str, entity: Entity) -> tuple[str, float]:
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise click.UsageError(f"'{setting}' is not of the form QUOTA=VALUE")
    _check_key(key, entity)
    number = _SIZE.fullmatch(text.strip())
    if number is None or (number[2] and not key.endswith("byte_rate")):
        units = ", or a size as 10MiB" if key.endswith("byte_rate") else ""
        raise click.UsageError(f"'{text}' is not a value of {key}: write a number{units}")
    unit = (number[2] or "").lower()
    return key, float(number[1]) * (1024 if "i" in unit else 1000) ** _POWERS[unit[:1]]


def _check_key(key: str, entity: Entity) -> None:
    """Brokers answer an unknown quota with one word; say which there are."""
    known = IP_KEYS if entity[0][0] == IP else CLIENT_KEYS
    if key in known:
        return
    close: Sequence[str] = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    raise click.UsageError(f"'{key}' is not a quota of {' and '.join(kind for kind, _ in entity)}; {hint}")


# Showing --------------------------------------------------------------------------------------------------


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _entity_document(entity: Entity) -> list[dict[str, str | None]]:
    return [{"type": kind, "name": name} for kind, name in entity]


def _document(each: Quota) -> dict[str, Any]:
    return {"entity": _entity_document(each.entity), "quotas": each.values}
