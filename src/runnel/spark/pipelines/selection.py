"""Which tables a run is to update, where it is not all of them, and what of a project that concerns.

In: names as users write them. Out: problems of the names; the definitions that such a run uses.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from runnel.spark.pipelines.definitions import Definitions, FlowDefinition
from runnel.spark.pipelines.file_tables import resolve
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.relations import tables_read
from runnel.spark.pipelines.spec_file import Problem
from runnel.spark.pipelines.sql_files import defined_names


def check_selection(project: Project, noted: Definitions, tables: Iterable[str]) -> Iterator[Problem]:
    """A table that is not there is nothing to refresh: Spark would do nothing, and call that done."""
    names = {*noted.output_names, *defined_names(project)}
    there = {resolve(project, name) for name in names}
    for table in tables:
        if not re.search(r"\w", table):
            yield Problem(f"'{table}' is no name of a table to refresh")
        elif resolve(project, table) not in there:
            close = difflib.get_close_matches(table, names, n=1) or _elsewhere(table, names)
            yield Problem(
                f"there is no table '{table}' to refresh" + (f": did you mean '{close[0]}'?" if close else "")
            )


def _elsewhere(table: str, names: Iterable[str]) -> list[str]:
    """Tables that have this name in another database or catalog."""
    return sorted(name for name in names if name.rpartition(".")[2] == table.rpartition(".")[2])


def chosen_definitions(project: Project, noted: Definitions, tables: Collection[str]) -> Definitions:
    """What a run that updates these tables only uses; without names, all."""
    if not tables:
        return noted
    chosen = {resolve(project, table) for table in tables}
    flows = {name: flow for name, flow in noted.flows.items() if resolve(project, flow.target) in chosen}
    sinks = {name: sink for name, sink in noted.sinks.items() if resolve(project, name) in chosen}
    return replace(noted, flows=_with_views(noted, flows), sinks=sinks)


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
