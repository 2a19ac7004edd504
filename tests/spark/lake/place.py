"""One lake table under test: queries that write it, its rows as any reader sees them, and the verdict of the CLI."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runnel.spark.lake.options import Destination, LakeOptions, parse_lake_options
from runnel.spark.lake.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_S = 180
CLI_S = 120


@dataclass(frozen=True)
class Place:
    folder: Path
    table_format: str
    spark: SparkSession
    bootstrap: str

    @property
    def path(self) -> str:
        return str(self.folder / "table")

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def options(self) -> LakeOptions:
        return parse_lake_options({"path": self.path, "tableFormat": self.table_format})

    # Queries ----------------------------------------------------------------------------------------------------

    def topic(self, name: str, *, stream: bool = True, **options: str) -> DataFrame:
        reader: Any = self.spark.readStream if stream else self.spark.read
        source = reader.format("runnel").option("kafka.bootstrap.servers", self.bootstrap).option("subscribe", name)
        frame: DataFrame = source.option("startingOffsets", "earliest").options(**options).load()
        return frame

    def start(self, frame: DataFrame, *, available_now: bool = True, **options: str) -> Any:
        writer = frame.writeStream.format("runnel-lake").option("checkpointLocation", str(self.checkpoint))
        writer = writer.options(tableFormat=self.table_format, **options)
        trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        return writer.trigger(**trigger).start(self.path)

    def stream(self, frame: DataFrame, **options: str) -> Any:
        """Everything that is there now; the query, ended."""
        query = self.start(frame, **options)
        assert query.awaitTermination(QUERY_S), "the query has not ended"
        return query

    def forget_last_commit(self) -> int:
        """Spark's own note of its last batch, which it will then run again; the number of that batch."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for name in (str(last), f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)
        return last

    def save(self, frame: DataFrame, mode: str = "append", **options: str) -> None:
        writer = frame.write.format("runnel-lake").options(tableFormat=self.table_format, **options)
        writer.mode(mode).save(self.path)

    # What became of it ------------------------------------------------------------------------------------------

    def rows(self, *columns: str, dead: bool = False) -> list[dict[str, Any]]:
        """By partition and offset, where they are among the columns."""
        destination = self.options.dead_letters if dead else self.options.destination
        return rows_of(destination, columns)

    def runnel(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A real `runnel lake` process on this table."""
        command = [sys.executable, "-m", "runnel", "lake", verb, self.path, "--format", self.table_format, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=CLI_S, check=False)

    def verify(self, topic: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.runnel("verify", "--topic", topic, "-b", self.bootstrap, *arguments)


def rows_of(destination: Destination, columns: Sequence[str]) -> list[dict[str, Any]]:
    batches = open_table(destination).scan(columns)
    rows = [row for batch in batches for row in batch.select(list(columns)).to_pylist()]
    return sorted(rows, key=lambda row: (row.get("partition", 0), row.get("offset", 0)))
