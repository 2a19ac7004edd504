"""Which row makes a query fail: the query is run again on halves of what it read, until a single row is left.

In: a query and the rows that it read, offsets of a topic or rows of a table. Out: the first that fails by itself.
Results are thrown away; nothing is written but temporary views in a session that ends with the search.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from runnel.client.metadata import TopicPartition
from runnel.spark.pipelines.file_tables import TableName
from runnel.spark.pipelines.messages import unlogged
from runnel.spark.pipelines.queries import Queries, Query, quoted
from runnel.spark.pipelines.relations import frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.connect.session import SparkSession

SEARCH_S_MAX = 60.0
HALVINGS_MAX = 40
SOURCE_LIMITS = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "subscribe", "subscribepattern")
NUMBER = "_runnel_number"
PARTITION_SHIFT = 33
"""Spark numbers the rows of each of its partitions from a multiple of 2^33 on."""


class OutOfTime(Exception):
    """The search has taken as long as it may."""


class Search:
    """A session of its own, with the project's database and views, for as long as a search may take."""

    def __init__(self, session: SparkSession, queries: Queries, query: Query, over: threading.Event) -> None:
        self.session = session
        self._queries = queries
        self._query = query
        self._over = over

    def fails(self, options: Mapping[str, str] | None = None) -> bool:
        """Whether the query fails. `options`: of the topic that it reads."""
        try:
            for name, relation in self._query.views.items():
                self._frame(relation, options).createOrReplaceTempView(quoted(name.table))
            self._frame(self._query.relation, options).write.format("noop").mode("overwrite").save()
        except PySparkException as error:
            if self._over.is_set():
                raise OutOfTime from error
            return True
        if self._over.is_set():
            raise OutOfTime
        return False

    def _frame(self, relation: Any, options: Mapping[str, str] | None) -> DataFrame:
        batch = self._queries.as_batch(relation, lambda given: given if options is None else options)
        found: DataFrame = frame(self.session, batch)
        return found


@contextlib.contextmanager
def search(session: SparkSession, queries: Queries, query: Query) -> Iterator[Search]:
    own, over = session.cloneSession(), threading.Event()
    own.client.set_retry_policies(session.client.get_retry_policies())

    def end() -> None:
        over.set()
        with contextlib.suppress(PySparkException):
            own.interruptAll()

    timer = threading.Timer(SEARCH_S_MAX, end)
    timer.daemon = True
    timer.start()
    try:
        with unlogged():
            spec = queries.project.spec
            if spec.catalog:
                own.catalog.setCurrentCatalog(spec.catalog)
            if spec.database:
                own.catalog.setCurrentDatabase(spec.database)
            yield Search(own, queries, query, over)
    finally:
        timer.cancel()
        own.stop()


class TopicRecords:
    """The records of one partition, by their offsets."""

    def __init__(self, searching: Search, target: TopicPartition, options: Mapping[str, str]) -> None:
        self._search = searching
        self._target = target
        self._options = {name: text for name, text in options.items() if name.lower() not in SOURCE_LIMITS}

    def fails(self, first: int, until: int) -> bool:
        return self._search.fails(self._only(first, until))

    def value(self, offset: int) -> bytes:
        options = self._only(offset, offset + 1)
        row = self._search.session.read.format("runnel").options(**options).schema("value binary").load().head()
        return bytes(row[0]) if row is not None and row[0] is not None else b""

    def _only(self, first: int, until: int) -> dict[str, str]:
        topic, partition = self._target
        return {
            **self._options,
            "assign": json.dumps({topic: [partition]}),
            "startingOffsets": json.dumps({topic: {str(partition): first}}),
            "endingOffsets": json.dumps({topic: {str(partition): until}}),
        }


class TableRows:
    """The rows of a table, by their place in it: as Spark reads them, which is the same each time. `files`: the names
    of those that count, if not all do."""

    def __init__(self, searching: Search, table: TableName, files: Collection[str] | None) -> None:
        from pyspark.sql.connect import functions as sql

        self._search = searching
        self._view = table.table
        rows = searching.session.table(".".join(map(quoted, table)))
        if files is not None:
            rows = rows.where(sql.col("_metadata.file_name").isin(list(files)))
        self._rows = rows.select("*", sql.monotonically_increasing_id().alias(NUMBER))
        counts = self._rows.groupBy(sql.shiftright(NUMBER, PARTITION_SHIFT).alias("part")).count().collect()
        counted = sorted((int(part), int(count)) for part, count in counts)
        self._parts = [part for part, _ in counted]
        self._ends = list(accumulate(count for _, count in counted))
        self.count = self._ends[-1] if counted else 0

    def fails(self, first: int, until: int) -> bool:
        self._only(first, until).createOrReplaceTempView(quoted(self._view))
        return self._search.fails()

    def end(self) -> None:
        """The whole table again, for whoever looks among the rows of another."""
        self._search.session.catalog.dropTempView(self._view)

    def row(self, place: int) -> Row | None:
        return self._only(place, place + 1).head()

    def _only(self, first: int, until: int) -> DataFrame:
        return self._rows.where(f"{NUMBER} >= {self._number(first)} and {NUMBER} < {self._number(until)}").drop(NUMBER)

    def _number(self, place: int) -> int:
        """Spark's number of the row at a place, of those in order."""
        index = min(bisect.bisect_right(self._ends, place), len(self._ends) - 1)
        begin = self._ends[index - 1] if index else 0
        return (self._parts[index] << PARTITION_SHIFT) + place - begin


def first_failing(fails: Callable[[int, int], bool], first: int, until: int) -> int | None:
    """The first that fails by itself; None where none does, as when the fault is in their sum.

    What fails on nothing at all fails for another reason: batches may not do all that streams do, brokers go away.
    """
    if first >= until or fails(first, first) or not fails(first, until):
        return None
    for _ in range(HALVINGS_MAX):
        if until - first == 1:
            break
        middle = (first + until) // 2
        if fails(first, middle):
            until = middle
        else:
            first = middle
    return first if until - first == 1 and fails(first, until) else None
