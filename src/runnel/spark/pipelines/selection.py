"""Which tables a run is to update, where it is not all of them, and what of a project that concerns.

In: names as users write them. Out: problems of the names; the definitions that such a run uses.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from runnel.spark.pipelines.definitions import Definitions, FlowDefinition
from runnel.spark.pipelines.file_tables import TableName, resolve
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.relations import tables_read, tables_streamed
from runnel.spark.pipelines.spec_file import Problem
from runnel.spark.pipelines.sql_files import defined_names, refreshed_names, streamed_by


def check_selection(project: Project, noted: Definitions, tables: Iterable[str]) -> Iterator[Problem]:
    """Of anything but a table there is nothing to refresh: Spark would do nothing, and call that done."""
    names = _tables(project, noted)
    there = {resolve(project, name) for name in names}
    others = {resolve(project, name) for name in (*noted.output_names, *noted.flows, *defined_names(project))}
    for table in tables:
        if not re.search(r"\w", table):
            yield Problem(f"'{table}' is no name of a table to refresh")
        elif resolve(project, table) in others - there:
            yield Problem(f"'{table}' is no table: sinks, temporary views and flows cannot be refreshed by themselves")
        elif resolve(project, table) not in there:
            close = difflib.get_close_matches(table, names, n=1) or _elsewhere(table, names)
            yield Problem(
                f"there is no table '{table}' to refresh" + (f": did you mean '{close[0]}'?" if close else "")
            )


def check_readers(project: Project, noted: Definitions, emptied: Iterable[str]) -> Iterator[Problem]:
    """Who reads a table as a stream reads all of it again when it was emptied: each row would come a second time."""
    readers = _stream_readers(project, noted)
    first = {resolve(project, name) for name in emptied}
    behind, left = set(first), list(first)
    while left:
        found = readers[left.pop()] - behind
        behind |= found
        left += found
    kept = sorted(map(str, behind.intersection(resolve(project, name) for name in _tables(project, noted)) - first))
    if kept:
        yield Problem(
            f"{' and '.join(kept)} would get the rows of {' and '.join(sorted(map(str, first)))} a second time: empty "
            f"what reads a table together with it ({' '.join(f'--full-refresh {name}' for name in kept)})"
        )


def _tables(project: Project, noted: Definitions) -> set[str]:
    return {*noted.output_names - noted.sinks.keys() - noted.view_names, *refreshed_names(project)}


def _stream_readers(project: Project, noted: Definitions) -> defaultdict[TableName, set[TableName]]:
    """By what is read: the tables, sinks and views that are filled from it."""
    found: defaultdict[TableName, set[TableName]] = defaultdict(set)
    flows = [flow for flow in noted.flows.values() if flow.relation is not None]
    for target, names in [
        *((flow.target, tables_streamed(flow.relation)) for flow in flows),
        *streamed_by(project),
    ]:
        for name in names:
            found[resolve(project, name)].add(resolve(project, target))
    return found


def _elsewhere(table: str, names: Iterable[str]) -> list[str]:
    """Tables that have this name in another database or catalog."""
    return sorted(name for name in names if name.rpartition(".")[2] == table.rpartition(".")[2])


def chosen_definitions(project: Project, noted: Definitions, tables: Collection[str]) -> Definitions:
    """What a run that updates these tables only uses; without names, all."""
    if not tables:
        return noted
    chosen = {resolve(project, table) for table in tables}
    flows = {name: flow for name, flow in noted.flows.items() if resolve(project, flow.target) in chosen}
    return replace(noted, flows=_with_views(noted, flows), sinks={})


def _with_views(noted: Definitions, flows: Mapping[str, FlowDefinition]) -> dict[str, FlowDefinition]:
    """And those of temporary views that they read, directly or through others."""
    found, left = dict(flows), list(flows.values())
    while left:
        relation = left.pop().relation
        for name in tables_read(relation) & noted.view_names - found.keys() if relation is not None else ():
            if name in noted.flows:
                found[name] = noted.flows[name]
                left.append(found[name])
    return found
