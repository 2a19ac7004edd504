"""`runnel config list|describe|set|unset`: configs of topics, brokers, groups, broker loggers, client metrics."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from runnel.cli.config_resources import chosen_resources, resource_options
from runnel.cli.options import KeyValue, bootstrap_options, json_option
from runnel.cli.outcomes import complain, error_fields, tell
from runnel.cli.output import note, print_json, print_table
from runnel.cli.session import run
from runnel.cli.verbs import Verbs
from runnel.client.cluster import Cluster
from runnel.client.configs import (
    ALL_BROKERS,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from runnel.client.errors import ClientError
from runnel.wire.errors import ErrorCode

LISTED_TYPES = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS)
DOCUMENTATION_WIDTH_MAX = 100
_TAG = re.compile(r"<[^>]*>")

Found = Mapping[ConfigResource, Sequence[ConfigEntry] | ClientError]


@click.group(cls=Verbs, short_help="Describe and change configs.")
@bootstrap_options
def config() -> None:
    """Configs of topics, brokers, groups, broker loggers and client metrics."""


# Looking --------------------------------------------------------------------------------------------------


@config.command("list")
@click.option(
    "--type", "kinds", multiple=True, type=click.Choice([kind.word for kind in LISTED_TYPES]), help="Only these."
)
@json_option
@bootstrap_options
def list_verb(kinds: tuple[str, ...], as_json: bool) -> int:
    """Every config that somebody has set, of all topics, brokers and groups."""
    types = [kind for kind in LISTED_TYPES if not kinds or kind.word in kinds]

    async def work(cluster: Cluster) -> Found:
        return await describe_configs(cluster, await _everyone(cluster, types))

    found = run(work)
    own = {
        resource: [entry for entry in entries if entry.is_own(resource.type) and not _inherited(resource, entry)]
        for resource, entries in found.items()
        if not isinstance(entries, ClientError)
    }
    if as_json:
        print_json([_document(resource, entries) for resource, entries in own.items() if entries])
    else:
        rows = [
            (resource.type.word, resource.name or "(all brokers)", entry.name, _value(entry), entry.source)
            for resource, entries in own.items()
            for entry in entries
        ]
        print_table(["type", "name", "config", "value", "source"], rows) if rows else note("nothing is set")
    return complain(found.values())


async def _everyone(cluster: Cluster, types: Iterable[ResourceType]) -> list[ConfigResource]:
    """All who may have configs. What Metadata tells is not asked for; older brokers tell no more than that."""
    view = await cluster.refresh(None)
    wanted = set(types)
    chosen: list[ConfigResource] = []
    if ResourceType.TOPIC in wanted:
        chosen += [ConfigResource(ResourceType.TOPIC, name) for name in sorted(view.topics)]
    if ResourceType.BROKER in wanted:
        names = (ALL_BROKERS, *map(str, sorted(view.brokers)))
        chosen += [ConfigResource(ResourceType.BROKER, name) for name in names]
    others = sorted(wanted - {ResourceType.TOPIC, ResourceType.BROKER})
    if others:
        try:
            chosen += await list_config_resources(cluster, others)
        except ClientError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            note("this broker does not tell which groups and client metrics have configs (no ListConfigResources)")
    return chosen


def _inherited(resource: ConfigResource, entry: ConfigEntry) -> bool:
    """One broker shows what is set for all of them too."""
    return resource.type is ResourceType.BROKER and resource.name != ALL_BROKERS and entry.source == "cluster"


@config.command()
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@resource_options
@click.option("-a", "--all", "everything", is_flag=True, help="Defaults too.")
@click.option("--docs", is_flag=True, help="With what each config does; so it is when KEYs are named.")
@json_option
@bootstrap_options
def describe(keys: tuple[str, ...], everything: bool, docs: bool, as_json: bool, **options: Any) -> int:
    """What is set, to what, by whom; with KEYs, what they do.

    \b
    runnel config describe --topic orders --all
    runnel config describe --topic orders retention.ms
    runnel config describe --broker 1
    """
    resources = chosen_resources(options)
    detailed = bool(keys) or docs

    async def work(cluster: Cluster) -> Found:
        found = await describe_configs(
            cluster, resources, list(keys) or None, documentation=detailed or as_json, synonyms=detailed or as_json
        )
        return {
            resource: entries
            if isinstance(entries, ClientError)
            else await _with_keys(cluster, resource, entries, keys)
            for resource, entries in found.items()
        }

    found = run(work)
    shown = {
        resource: [entry for entry in entries if everything or keys or entry.source != "default"]
        for resource, entries in found.items()
        if not isinstance(entries, ClientError)
    }
    if as_json:
        print_json([_document(resource, entries) for resource, entries in shown.items()])
    else:
        for number, (resource, entries) in enumerate(shown.items()):
            if number:
                click.echo()
            _print(resource, entries, detailed)
    return complain(found.values())


async def _with_keys(
    cluster: Cluster, resource: ConfigResource, entries: Sequence[ConfigEntry], keys: Sequence[str]
) -> Sequence[ConfigEntry] | ClientError:
    """Brokers leave out what they do not know; a person who misspelt a key wants to hear of it."""
    unknown = [key for key in keys if key not in {entry.name for entry in entries}]
    if not unknown:
        return entries
    return ClientError(f"{resource} has no config '{unknown[0]}'{await _suggestion(cluster, resource, unknown)}")


async def _suggestion(cluster: Cluster, resource: ConfigResource, keys: Sequence[str]) -> str:
    entries = (await describe_configs(cluster, [resource])).get(resource, [])
    known = [] if isinstance(entries, ClientError) else [entry.name for entry in entries]
    wrong = [key for key in keys if key not in known]
    close = [match for key in wrong for match in difflib.get_close_matches(key, known, n=1)]
    if close:
        return f"; did you mean '{close[0]}'?"
    return (
        f"; `runnel config describe --{resource.type.word} {resource.name} --all` shows what there is" if known else ""
    )


# Changing -------------------------------------------------------------------------------------------------


@config.command("set")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, type=KeyValue())
@resource_options
@click.option("--append", "appends", multiple=True, type=KeyValue(), help="Add to a list config.")
@click.option("--subtract", "subtracts", multiple=True, type=KeyValue(), help="Take from a list config.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the change, and change nothing.")
@json_option
@bootstrap_options
def set_verb(
    settings: tuple[tuple[str, str], ...],
    appends: tuple[tuple[str, str], ...],
    subtracts: tuple[tuple[str, str], ...],
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Set configs.

    \b
    runnel config set --topic orders retention.ms=86400000
    runnel config set --broker-defaults log.retention.ms=86400000
    runnel config set --broker-logger 1 root=DEBUG
    """
    changes = [
        *(ConfigChange(ConfigOperation.SET, key, value) for key, value in settings),
        *(ConfigChange(ConfigOperation.APPEND, key, value) for key, value in appends),
        *(ConfigChange(ConfigOperation.SUBTRACT, key, value) for key, value in subtracts),
    ]
    if not changes:
        raise click.UsageError("nothing to set: give KEY=VALUE, --append or --subtract")
    return _alter(options, changes, "would set configs of" if dry_run else "set configs of", dry_run, as_json)


@config.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@resource_options
@click.option("--dry-run", is_flag=True, help="Let the broker check the change, and change nothing.")
@json_option
@bootstrap_options
def unset(keys: tuple[str, ...], dry_run: bool, as_json: bool, **options: Any) -> int:
    """Take configs back to what applies without them."""
    changes = [ConfigChange(ConfigOperation.DELETE, key) for key in keys]
    return _alter(options, changes, "would unset configs of" if dry_run else "unset configs of", dry_run, as_json)


def _alter(options: Mapping[str, Any], changes: Sequence[ConfigChange], done: str, dry_run: bool, as_json: bool) -> int:
    resources = chosen_resources(options)

    async def work(cluster: Cluster) -> dict[ConfigResource, ClientError | None]:
        outcomes = await alter_configs(cluster, resources, changes, validate_only=dry_run)
        return {resource: await _explained(cluster, resource, changes, error) for resource, error in outcomes.items()}

    outcomes = run(work)
    if as_json:
        print_json([{**_names(resource), **error_fields(error)} for resource, error in outcomes.items()])
    return tell([(f"{done} {resource}", error) for resource, error in outcomes.items()], as_json=as_json)


async def _explained(
    cluster: Cluster, resource: ConfigResource, changes: Sequence[ConfigChange], error: ClientError | None
) -> ClientError | None:
    """A key that nobody knows is mostly a misspelt one."""
    if error is None or error.code not in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST):
        return error
    entries = (await describe_configs(cluster, [resource])).get(resource)
    known = {entry.name for entry in entries} if isinstance(entries, list) else set()
    unknown = [change.name for change in changes if known and change.name not in known]
    if not unknown:
        return error
    return ClientError(f"{error.message}{await _suggestion(cluster, resource, unknown)}", code=error.code)


# Showing --------------------------------------------------------------------------------------------------


def _names(resource: ConfigResource) -> dict[str, Any]:
    return {"type": resource.type.word, "name": resource.name or None}


def _document(resource: ConfigResource, entries: Sequence[ConfigEntry]) -> dict[str, Any]:
    rows = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source,
            "type": entry.type,
            "read_only": entry.read_only,
            "sensitive": entry.sensitive,
            "documentation": entry.documentation,
            "synonyms": [synonym._asdict() for synonym in entry.synonyms],
        }
        for entry in entries
    ]
    return {**_names(resource), "configs": rows}


def _print(resource: ConfigResource, entries: Sequence[ConfigEntry], detailed: bool) -> None:
    click.echo(f"{resource}:")
    if not entries:
        note("nothing is set: everything has its default (--all shows it)")
    elif detailed:
        for entry in entries:
            _print_entry(entry)
    else:
        rows = [(entry.name, _value(entry), entry.source, "yes" if entry.read_only else "") for entry in entries]
        print_table(["config", "value", "source", "read-only"], rows)


def _print_entry(entry: ConfigEntry) -> None:
    others = [each for each in entry.synonyms if (each.source, each.value) != (entry.source, entry.value)]
    inherited = "".join(f"; {each.source} {each.name}={each.value}" for each in others)
    click.echo(f"{entry.name}={_value(entry)}  ({entry.type}, {entry.source}{inherited})")
    if entry.documentation:
        width = min(shutil.get_terminal_size().columns, DOCUMENTATION_WIDTH_MAX)
        text = " ".join(_TAG.sub("", entry.documentation).split())
        click.echo(click.wrap_text(text, width, initial_indent="    ", subsequent_indent="    "))


def _value(entry: ConfigEntry) -> str:
    if entry.sensitive:
        return "(hidden)"
    return "(null)" if entry.value is None else entry.value
