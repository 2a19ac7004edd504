"""The options of `format("runnel-lake")`, checked before anything runs.

In: options as Spark hands them over. Out: `LakeOptions`, or OptionError with the cure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runnel.spark.errors import OptionError

TABLE_FORMATS = ("delta", "iceberg", "parquet")
WRITE_MODES = ("append", "upsert")
EVENT_DATE = "event_date"
ERROR_DEFAULT = "_error"
FILE_BYTES = 128 << 20
NO_UPSERT = "a plain Parquet folder has no upsert: set tableFormat to delta or iceberg"
NO_OVERWRITE = "a plain Parquet folder cannot be overwritten in one step: delete it, or use Delta or Iceberg"
KNOWN = (
    "path",
    "tableFormat",
    "table",
    "appId",
    "batchId",
    "writeMode",
    "keyColumns",
    "orderColumn",
    "valueColumn",
    "eventTimeColumn",
    "partitionBy",
    "errorColumn",
    "deadLetterPath",
    "targetFileBytes",
)
UNFIT_IN_PATHS = {"delta": "%\\", "iceberg": "%#?"}
PASSED_THROUGH = ("storage.", "catalog.")
SPARKS_OWN = ("checkpointlocation", "querytimeout", "querytype", "queryname", "outputmode")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a table is: enough to open it. `table` is the name that Iceberg's catalog knows it by."""

    path: str
    table_format: str = "delta"
    table: str = ""
    storage: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """`app_id` and `batch_id` are None where a batch query does not ask for exactly-once; `order_column`,
    `value_column` and `event_time_column` where they are offset, value and timestamp, if the rows have these."""

    destination: Destination
    dead_letters: Destination
    app_id: str | None = None
    query_id: str | None = None
    batch_id: int | None = None
    is_upsert: bool = False
    key_columns: tuple[str, ...] = ("key",)
    order_column: str | None = None
    value_column: str | None = None
    event_time_column: str | None = None
    partition_by: tuple[str, ...] | None = None
    error_column: str = ERROR_DEFAULT
    file_bytes: int = FILE_BYTES


def parse_lake_options(options: Mapping[str, str]) -> LakeOptions:
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given)
    destination = _destination(given)
    dead_path = _dead_path(given, destination.path.rstrip("/"))
    query = query_id(given.get("checkpointlocation"))
    return LakeOptions(
        destination,
        _dead_letters(destination, dead_path),
        app_id=given.get("appid") or query,
        query_id=query,
        batch_id=_whole(given, "batchId"),
        is_upsert=_is_upsert(given, destination),
        key_columns=_names(given.get("keycolumns", "key")),
        order_column=given.get("ordercolumn"),
        value_column=given.get("valuecolumn"),
        event_time_column=given.get("eventtimecolumn"),
        partition_by=_names(given["partitionby"]) if "partitionby" in given else None,
        error_column=given.get("errorcolumn", ERROR_DEFAULT),
        file_bytes=_whole(given, "targetFileBytes") or FILE_BYTES,
    )


def _is_upsert(given: Mapping[str, str], destination: Destination) -> bool:
    is_upsert = _choice(given, "writeMode", WRITE_MODES) == "upsert"
    if is_upsert and destination.table_format == "parquet":
        raise OptionError(NO_UPSERT)
    return is_upsert


def query_id(checkpoint: str | None) -> str | None:
    """The id that Spark gave a streaming query, from its checkpoint: as long as that lives, so does the id."""
    if not checkpoint:
        return None
    try:
        text = (Path(_absolute(checkpoint)) / "metadata").read_text()
        return str(json.loads(text)["id"])
    except (OSError, ValueError, KeyError):
        return None


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {name.lower() for name in KNOWN}
    for name in given:
        if name not in known and name not in SPARKS_OWN and not name.startswith(PASSED_THROUGH):
            raise OptionError(f"format runnel-lake has no option '{name}'; it has {', '.join(KNOWN)}")


def _destination(given: Mapping[str, str]) -> Destination:
    path = given.get("path", "")
    if not path:
        raise OptionError("say where the table is: .start(path), .save(path) or option 'path'")
    name = given.get("table") or f"runnel.{path.rstrip('/').rsplit('/', 1)[-1].replace('-', '_').replace('.', '_')}"
    table_format = _choice(given, "tableFormat", TABLE_FORMATS)
    for character in UNFIT_IN_PATHS.get(table_format, ""):
        if character in path and "://" not in path:
            raise OptionError(f"'{path}' cannot be the path of a table of {table_format}: it must not hold {character}")
    if name.count(".") < 1:
        raise OptionError(f"option 'table' is '{name}': an Iceberg table is named namespace.table")
    return Destination(
        _absolute(path),
        table_format,
        name,
        _prefixed(given, "storage."),
        _prefixed(given, "catalog."),
    )


def _absolute(path: str) -> str:
    """Executors, and the next run, may work in another folder."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if "://" in path else os.path.abspath(path)


def _dead_path(given: Mapping[str, str], table: str) -> str:
    path = _absolute(given.get("deadletterpath") or f"{table}__dead_letter").rstrip("/")
    if f"{path}/".startswith(f"{table}/"):  # the stamp of one commit would make the other a repetition
        raise OptionError(
            f"option 'deadLetterPath' is '{path}', in the table itself: dead letters need a place of theirs"
        )
    return path


def _dead_letters(main: Destination, path: str) -> Destination:
    return Destination(path, main.table_format, main.table + "__dead_letter", main.storage, main.catalog)


def _prefixed(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = given.get(name.lower(), choices[0]).lower()
    if value not in choices:
        raise OptionError(f"option '{name}' is '{value}': it must be one of {', '.join(choices)}")
    return value


def _whole(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isdigit():
        raise OptionError(f"option '{name}' is '{text}': it must be a whole number")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
