"""Owns taking turns: the same work by our connector, in one or two ways, and by theirs; and what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.results import Row
from benchmarks.spark.bench import OURS, THEIRS, SparkBench, Turn

Work = Callable[[], Turn]
MESSAGE_CHARACTERS_MAX = 300
COLD_WARM_UPS = 4
"""Before the first line of a run: a JVM goes on compiling for a while, and both connectors gain by it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A line of three tables (rows/s, CPU of Spark, CPU of the broker), or one line for each of our ways."""

    name: str
    rows: int
    theirs: Work
    ours: Mapping[str, Work]
    """By what is added to the name: ours may have more than one way to do it."""


def take_turns(bench: SparkBench, title: str, case: Case, turns: int, *, warm_ups: int = 1) -> None:
    """Who fails is noted and takes part no more; the others go on."""
    contenders: dict[str | None, Work] = {**dict(case.ours.items()), None: case.theirs}
    for number in range(-warm_ups, turns):
        for way, work in list(contenders.items()):
            who = "Spark's connector" if way is None else f"runnel{way}"
            bench.tell(f"{title}: {case.name}: {who}, {'warm-up' if number < 0 else f'turn {number + 1} of {turns}'}")
            try:
                turn = work()
            except Exception as problem:  # whatever Spark, a broker or a disk may come up with
                del contenders[way]
                bench.results.failures.append(f"{title}: {case.name}: {who}: {first_line(problem)}")
                continue
            if number >= 0:
                _record(bench, title, case, way, turn)
    bench.done()


def _record(bench: SparkBench, title: str, case: Case, way: str | None, turn: Turn) -> None:
    """Theirs stands beside each of our ways."""
    for suffix in case.ours if way is None else (way,):
        name, connector = f"{case.name}{suffix}", THEIRS if way is None else OURS
        figures = (
            (f"{title}: speed", "rows/s", False, case.rows / turn.wall_s),
            (f"{title}: CPU of Spark, its JVM and its Python", "µs/row", True, turn.spark_cpu_s / case.rows * 1e6),
            (f"{title}: CPU of the broker", "µs/row", True, turn.broker_cpu_s / case.rows * 1e6),
        )
        for section, unit, lower_is_better, value in figures:
            bench.results.record(Row(section, name, unit, lower_is_better), connector, value)


def first_line(problem: Exception) -> str:
    """What went wrong, without the two stack traces that come with it."""
    lines = [line for line in str(problem).splitlines() if line.strip()]
    # Py4J begins with "An error occurred while calling …"; the error itself is on the next line.
    text = lines[1] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else "".join(lines[:1])
    return f"{type(problem).__name__}: {text.strip()}"[:MESSAGE_CHARACTERS_MAX]
