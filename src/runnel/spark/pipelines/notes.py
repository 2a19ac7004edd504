"""What a run leaves for others to read: its state, a line per change of figures, and metrics for Prometheus.

In: figures as they come. Out: under the project's storage, `_runnel/state.json`, the lines of runs (`run_lines.py`) and
`_runnel/metrics.prom` (the textfile format of node-exporter). A lock that the kernel gives up with the process tells
whether a run is alive, so that one which was killed is noticed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from runnel.spark.pipelines.flow_progress import FlowProgress
from runnel.spark.pipelines.run_lines import RunLines, last_run, replace_file
from runnel.spark.pipelines.spec_file import Place

STATE_FILE, LOCK_FILE, METRICS_FILE, RUNS_FOLDER = "state.json", "lock", "metrics.prom", "runs"
RUNNING, WAITING, STARTING = "running", "waiting", "starting"
ALIVE = (STARTING, RUNNING, WAITING)
COMPLETED, FAILED, STOPPED = "completed", "failed", "stopped"
KILLED = "killed"
"""What a reader makes of a state that says it runs while nobody holds the lock."""
BEGUN = ("PLANNING", "STARTING", "RUNNING")
UNDER_WAY = ("QUEUED", *BEGUN)
"""What Spark says of flows; before one of them begins it says of each that it is QUEUED, or EXCLUDED from this run."""
LOOKS_MAX = 1000
"""How often a run that begins meets somebody who only looks, before it gives up."""


class AlreadyRunning(RuntimeError):
    """Another process runs this project; two of them would write into the same checkpoints."""


class RunNotes:
    """Of one process that runs a project, once or again and again. Use as a context manager."""

    def __init__(self, project: Place) -> None:
        self._project = project
        self._folder = project.notes
        self._state: dict[str, Any] = {}
        self._totals: dict[str, int] = {}
        self._lock: IO[str] | None = None
        self._lines: RunLines | None = None

    def __enter__(self) -> RunNotes:
        (self._folder / RUNS_FOLDER).mkdir(parents=True, exist_ok=True)
        self._lock = (self._folder / LOCK_FILE).open("a")
        before = read_state(self._project) if _take(self._lock) else None
        if before is None:
            self._lock.close()
            pid = read_state(self._project).get("pid")
            raise AlreadyRunning(f"pid {pid} runs this pipeline: `runnel pipeline stop` ends it")
        self._state = {"flows": {}, "rows_total": {}, **before}
        self._state |= {"pipeline": self._project.name, "project": str(self._project.folder)}
        if self._project.local_storage is not None:
            self._state["storage"] = str(self._project.local_storage)
        self._write(
            status=STARTING, pid=os.getpid(), started_ms=now_ms(), error=None, flows=_ended(self._state, KILLED)
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._state["status"] in ALIVE:
            self._end(STOPPED if error is None else FAILED, str(error) if error else None)
        self._close_lines()
        if self._lock is not None:
            self._lock.close()

    def begin_run(self) -> int:
        folder = self._folder / RUNS_FOLDER
        number = max(int(self._state.get("run", 0)), last_run(folder)) + 1
        self._close_lines()
        self._lines = RunLines(folder, number)
        self._totals = dict(self._state["rows_total"])
        self._write(status=RUNNING, run=number, run_started_ms=now_ms(), error=None)
        return number

    def note(self, progress: FlowProgress) -> None:
        run = self._state["run"]
        document = {"run": run, **progress.as_dict()}
        if self._lines is not None:
            self._lines.write(document)
        flows, totals = self._state["flows"], self._state["rows_total"]
        if progress.status in BEGUN:
            # By now Spark has told of every flow that there is: others were renamed or removed since an older run.
            flows = {name: flow for name, flow in flows.items() if flow.get("run") == run}
            totals = {name: rows for name, rows in totals.items() if name in flows}
        before = flows.get(progress.flow)
        if before is not None and progress.batches == 0:
            # Nothing new to read so far: the figures of its last batch still hold.
            document = {
                **before,
                **{name: document[name] for name in ("run", "status", "error", "timestamp_ms", "rows")},
            }
        total = self._totals.get(progress.flow, 0) + progress.rows
        self._write(flows={**flows, progress.flow: document}, rows_total={**totals, progress.flow: total})

    def end_run(self, status: str, error: str | None) -> None:
        """`status` of the run; whether another follows is told by `wait_until`."""
        self._end(status, error, last_status=status, run_ended_ms=now_ms())
        self._close_lines()

    def _end(self, status: str, error: str | None, **changes: Any) -> None:
        self._write(status=status, error=error, flows=_ended(self._state, STOPPED), **changes)

    def wait_until(self, moment_ms: int) -> None:
        self._write(status=WAITING, next_run_ms=moment_ms)

    def _write(self, **changes: Any) -> None:
        self._state.update(changes)
        replace_file(self._folder / STATE_FILE, json.dumps(self._state, indent=1).encode())
        replace_file(self._folder / METRICS_FILE, "".join(f"{line}\n" for line in metrics(self._state)).encode())

    def _close_lines(self) -> None:
        if self._lines is not None:
            self._lines.close()
            self._lines = None


def _ended(state: Mapping[str, Any], status: str) -> dict[str, Any]:
    """The flows, none of which is under way any more: those that were have this status."""
    flows: Mapping[str, Mapping[str, Any]] = state.get("flows") or {}
    ended = {name: status.upper() for name, flow in flows.items() if flow["status"] in UNDER_WAY}
    return {name: {**flow, "status": ended.get(name, flow["status"])} for name, flow in flows.items()}


def read_state(project: Place) -> dict[str, Any]:
    """The last state that was written; empty where nothing ever ran."""
    try:
        state: dict[str, Any] = json.loads((project.notes / STATE_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return state if isinstance(state, dict) and "status" in state else {}


def current_state(project: Place) -> dict[str, Any]:
    """As `read_state`, with the truth about whether it still runs."""
    state, alive = _look(project)
    if state and not alive and state["status"] in ALIVE:
        return {
            **state,
            "status": KILLED,
            "killed_while": state["status"],
            "flows": _ended(state, KILLED),
            "alive": False,
        }
    return {**state, "alive": alive} if state else {}


def _look(project: Place) -> tuple[dict[str, Any], bool]:
    """The state and whether the lock is held, of one moment: a run may begin or end between the two questions."""
    for _ in range(LOOKS_MAX):
        state = read_state(project)
        alive = is_running(project)
        if alive == (state.get("status") in ALIVE) or state == read_state(project):
            break
    return state, alive


def is_running(project: Place) -> bool:
    with contextlib.suppress(FileNotFoundError), (project.notes / LOCK_FILE).open() as lock:
        return not _lock(lock, fcntl.LOCK_SH)
    return False


def _take(lock: IO[str]) -> bool:
    """The lock of a run; False where another run has it. Who only looks holds it too, for a moment: that is no run."""
    for _ in range(LOOKS_MAX):
        if _lock(lock, fcntl.LOCK_EX):
            return True
        if not _lock(lock, fcntl.LOCK_SH):
            return False
    return False


def _lock(lock: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


# Metrics --------------------------------------------------------------------------------------------------------

_FLOW_METRICS = (
    ("rows_per_second", "gauge", "rows_per_second", 1, "Rows per second of the last micro-batch with rows."),
    ("batch_seconds", "gauge", "batch_ms", 0.001, "How long it took."),
    ("lag_offsets", "gauge", "lag", 1, "Offsets behind the latest, over all partitions."),
    ("state_rows", "gauge", "state_rows", 1, "Rows in the state store."),
    ("state_bytes", "gauge", "state_bytes", 1, "Memory of the state store."),
)


def metrics(state: Mapping[str, Any]) -> Iterator[str]:
    pipeline = _label(state["pipeline"])
    flows: Mapping[str, Mapping[str, Any]] = state.get("flows") or {}
    whole = {
        "running": ("Whether a run is under way.", int(state["status"] == RUNNING)),
        "runs_total": ("Runs so far.", state.get("run", 0)),
        "last_run_success": ("Whether the last run that ended did its work.", _success(state)),
        "last_run_end_timestamp_seconds": ("When it ended.", state.get("run_ended_ms", 0) / 1000),
    }
    for name, (meaning, value) in whole.items():
        yield from _metric(name, "counter" if name.endswith("_total") else "gauge", meaning, [(f"{pipeline}", value)])
    totals = [(f"{pipeline},flow={_quoted(flow)}", rows) for flow, rows in (state.get("rows_total") or {}).items()]
    yield from _metric("flow_rows_total", "counter", "Rows read by the flow.", totals)
    failed = [(f"{pipeline},flow={_quoted(flow)}", int(row["status"] == "FAILED")) for flow, row in flows.items()]
    yield from _metric("flow_failed", "gauge", "Whether the flow has failed in the last run.", failed)
    for name, kind, field, factor, meaning in _FLOW_METRICS:
        samples = [
            (f"{pipeline},flow={_quoted(flow)}", row[field] * factor)
            for flow, row in flows.items()
            if row.get(field) is not None
        ]
        yield from _metric(f"flow_{name}", kind, meaning, samples)


def _metric(name: str, kind: str, meaning: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    lines = [f"runnel_pipeline_{name}{{{labels}}} {value}" for labels, value in samples]
    if lines:
        yield f"# HELP runnel_pipeline_{name} {meaning}"
        yield f"# TYPE runnel_pipeline_{name} {kind}"
        yield from lines


def _success(state: Mapping[str, Any]) -> int:
    return int(state.get("last_status") == COMPLETED)


def _label(pipeline: str) -> str:
    return f"pipeline={_quoted(pipeline)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def now_ms() -> int:
    return time.time_ns() // 1_000_000
