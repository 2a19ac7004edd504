"""`PipelineSession`: one project on one Spark, to be checked and run as often as wanted.

In: a project, where to run it, which tables to refresh. Out: `RunResult`, and figures on the way. A run processes all
that is there and ends; the next goes on from Spark's checkpoints under the project's storage.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.pipelines.spark_connect_pipeline import start_run

from runnel.spark.pipelines.catalog_copy import copied_catalog
from runnel.spark.pipelines.checks import Brokers, check_sinks, check_sources
from runnel.spark.pipelines.definitions import Definitions, read_definitions
from runnel.spark.pipelines.engine import Engine, EngineFailed, start_engine
from runnel.spark.pipelines.failures import FlowFailure, explain
from runnel.spark.pipelines.figures import Figures
from runnel.spark.pipelines.file_tables import check_tables
from runnel.spark.pipelines.flow_progress import FlowProgress
from runnel.spark.pipelines.messages import FlowEvent, flow_event, plain_message, unlogged
from runnel.spark.pipelines.notes import RunNotes, current_state
from runnel.spark.pipelines.own_catalog import FREE_S, remove_half_made, wait_until_free
from runnel.spark.pipelines.project import WAREHOUSE, Project, load_project
from runnel.spark.pipelines.run_result import RunResult
from runnel.spark.pipelines.selection import check_readers, check_selection, chosen_definitions
from runnel.spark.pipelines.spec_file import Problem, ProjectError
from runnel.spark.pipelines.validation import find_problems, graph_problem
from runnel.spark.spark_session import is_remote

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

LOG_FILE, VALIDATION_LOG_FILE = "spark.log", "validate.log"
RUN_TAG = "runnel-pipeline-run"


class PipelineSession:
    """Keeps one JVM (or one Connect session) for a project. Use as a context manager, or `close` it.

    An `engine` that is given is shared, and stays open. `notes`: of who keeps them over several runs, and notes what
    comes; else each run keeps its own, and is refused while another process has one under way.
    """

    def __init__(
        self,
        project: str | Path | Project,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        engine: Engine | None = None,
        notes: RunNotes | None = None,
    ) -> None:
        self.project = project if isinstance(project, Project) else load_project(project)
        self._notes = notes
        self._stopping = threading.Event()
        self._has_run = False
        self._is_here = not is_remote(master)  # else brokers and disks may be reachable from there only
        settings = {**self.project.settings(), **(conf or {})}
        self._own_engine = engine is None
        if engine is None:
            engine = Engine(master) if is_remote(master) else self._start_engine(master, settings)
        self._engine = engine
        try:
            self.spark: SparkSession = engine.session({**self.project.spec.configuration, **(conf or {})})
        except BaseException:
            self._close_engine()
            raise

    def _start_engine(self, master: str | None, settings: Mapping[str, str]) -> Engine:
        if self.project.is_own_catalog(settings):
            self._prepare_catalog(settings)
        self.project.notes.mkdir(parents=True, exist_ok=True)
        return start_engine(master, settings, app_name=self.project.name, log=self.project.notes / LOG_FILE)

    def _prepare_catalog(self, settings: Mapping[str, str]) -> None:
        """Derby, which keeps the tables' names, says in two hundred lines that another process has them."""
        state = current_state(self.project)
        if state.get("alive") and state["pid"] != os.getpid():
            raise self._taken(f"pid {state['pid']} runs this pipeline", "`runnel pipeline stop`", settings)
        if not wait_until_free(self.project.metastore, FREE_S):
            raise self._taken("another process has this pipeline open", "`session.close()` there", settings)
        if state.get("alive"):  # the run is ours, and so is the lock: nobody else makes a catalog
            remove_half_made(self.project.metastore)

    def _taken(self, who: str, end: str, settings: Mapping[str, str]) -> ProjectError:
        message = (
            f"{who}, and its catalog takes one process at a time: end it with {end}, or read the files of its tables "
            f"under {settings[WAREHOUSE]}"
        )
        return ProjectError([Problem(message)])

    def __enter__(self) -> PipelineSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.spark.stop()
        self._close_engine()

    def _close_engine(self) -> None:
        if self._own_engine:
            self._engine.close()

    @unlogged()
    def validate(self, *, ask_brokers: bool = True) -> list[Problem]:
        """What is wrong, found without running anything. EngineFailed where Spark's JVM ends meanwhile."""
        try:
            return find_problems(
                self.project,
                self.spark,
                self._engine.jvm,
                ask_brokers=ask_brokers and self._is_here,
                opens_tables=self._is_here,
                has_database=not self._makes_database or self._has_database(),
            )
        except (ProjectError, PySparkException) as error:
            return self._problems_of(error)

    def _problems_of(self, error: ProjectError | PySparkException) -> list[Problem]:
        if self._engine.is_gone:
            raise EngineFailed(self._engine.last_words) from error
        if isinstance(error, ProjectError):
            return error.problems
        raise error

    @property
    def _makes_database(self) -> bool:
        """Spark makes tables, and asks for the spec's database to be there. The catalog of a server elsewhere is left
        as it is."""
        return bool(self.project.spec.database) and not self.project.spec.catalog and self._is_here

    def _has_database(self) -> bool:
        return self.spark.catalog.databaseExists(_quoted(self.project.spec.database or ""))

    def make_database(self) -> None:
        """The one of the spec, if it is not there."""
        if not self._makes_database:
            return
        name = self.project.spec.database or ""
        try:
            self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {_quoted(name)}").collect()
        except PySparkException as error:
            message = f"database '{name}' cannot be made: {plain_message(error)}"
            raise ProjectError([Problem(message, self.project.spec_path.name)]) from error

    def run(
        self,
        *,
        full_refresh: Sequence[str] = (),
        full_refresh_all: bool = False,
        refresh: Sequence[str] = (),
        on_progress: Callable[[FlowProgress], None] | None = None,
    ) -> RunResult:
        """Process all that is there. `on_progress` is called from another thread, one call at a time."""
        show = on_progress or (lambda _: None)
        if self._notes is not None:
            return self._run(full_refresh, full_refresh_all, refresh, show)
        with RunNotes(self.project) as notes:

            def note(progress: FlowProgress) -> None:
                notes.note(progress)
                show(progress)

            notes.begin_run()
            result = self._run(full_refresh, full_refresh_all, refresh, note)
            notes.end_run(result.status, result.error)
            return result

    @unlogged()
    def _run(
        self,
        full_refresh: Sequence[str],
        full_refresh_all: bool,
        refresh: Sequence[str],
        on_progress: Callable[[FlowProgress], None],
    ) -> RunResult:
        started_s = time.monotonic()
        figures = Figures(on_progress)
        error: PySparkException | None = None
        try:
            self.make_database()
            with read_definitions(self.project, self.spark) as noted:
                chosen = () if full_refresh_all else (*full_refresh, *refresh)
                problems = (
                    noted.problems
                    or list(check_selection(self.project, noted, chosen))
                    or list(check_readers(self.project, noted, () if full_refresh_all else full_refresh))
                    or self._problems(noted, chosen, None if full_refresh_all else full_refresh)
                )
                if problems:
                    raise ProjectError(problems)
                with self._listening(figures), self._tagged():
                    try:
                        for event in self._events(noted, full_refresh, full_refresh_all, refresh):
                            figures.note_event(event)
                    except PySparkException as raised:
                        error = raised
                stopped = self._stopping.is_set() and error is not None
                self._has_run = True
                if not stopped and not self._engine.is_gone:
                    figures.end()
                failures = [] if stopped or error is None else list(self._explain(noted, figures, error))
                return RunResult(figures.flows, (), failures, stopped, time.monotonic() - started_s)
        except (ProjectError, PySparkException) as wrong:
            return self._not_run(wrong, time.monotonic() - started_s)
        finally:
            self._stopping.clear()

    def _problems(self, noted: Definitions, chosen: Sequence[str], emptied: Sequence[str] | None) -> list[Problem]:
        """Of what this run would do only."""
        brokers = Brokers(known=self._has_run) if self._is_here else None
        used = chosen_definitions(self.project, noted, chosen)
        return [
            *check_sources(used, brokers),
            *check_sinks(self.project, used, brokers),
            *check_tables(self.project, noted, self.spark, emptied, chosen),
        ]

    def _not_run(self, error: ProjectError | PySparkException, seconds: float) -> RunResult:
        try:
            return RunResult(problems=self._problems_of(error), seconds=seconds)
        except EngineFailed as gone:
            return RunResult(failures=[FlowFailure(None, str(gone))], seconds=seconds)

    def interrupt(self) -> None:
        """End the run that is under way; it fails as stopped, and the next one goes on where it was."""
        self._stopping.set()
        self.spark.interruptTag(RUN_TAG)

    def _events(
        self, noted: Definitions, full_refresh: Sequence[str], full_refresh_all: bool, refresh: Sequence[str]
    ) -> Iterator[FlowEvent]:
        spark: Any = self.spark
        results = start_run(
            spark,
            noted.graph_id,
            full_refresh=full_refresh,
            full_refresh_all=full_refresh_all,
            refresh=refresh,
            dry=False,
            storage=self.project.storage,
        )
        for result in results:
            if self._stopping.is_set():  # it may have been asked for before there was anything to interrupt
                self.spark.interruptTag(RUN_TAG)
            if "pipeline_event_result" in result:
                event = flow_event(result["pipeline_event_result"].event.message)
                if event is not None:
                    yield event

    def _explain(self, noted: Definitions, figures: Figures, error: PySparkException) -> Iterator[FlowFailure]:
        if self._engine.is_gone:
            yield FlowFailure(None, self._engine.last_words)
            return
        failed = [progress for progress in figures.flows.values() if progress.status == "FAILED"]
        for progress in failed:
            yield explain(self.project, self.spark, noted, progress.flow, progress.error or plain_message(error))
        if not failed:
            problem = graph_problem(self.project, noted, plain_message(error))
            yield FlowFailure(None, problem.message, problem.file, problem.line)

    @contextlib.contextmanager
    def _listening(self, figures: Figures) -> Iterator[None]:
        self.spark.streams.addListener(figures)
        try:
            yield
        finally:
            self.spark.streams.removeListener(figures)  # waits until all events have come

    @contextlib.contextmanager
    def _tagged(self) -> Iterator[None]:
        self.spark.addTag(RUN_TAG)
        try:
            yield
        finally:
            self.spark.removeTag(RUN_TAG)


def run(
    project: str | Path,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    full_refresh: Sequence[str] = (),
    full_refresh_all: bool = False,
    refresh: Sequence[str] = (),
    on_progress: Callable[[FlowProgress], None] | None = None,
) -> RunResult:
    """Run a project once, on a Spark of its own."""
    with PipelineSession(project, master=master, conf=conf) as session:
        return session.run(
            full_refresh=full_refresh,
            full_refresh_all=full_refresh_all,
            refresh=refresh,
            on_progress=on_progress,
        )


def validate(
    project: str | Path,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    ask_brokers: bool = True,
) -> list[Problem]:
    """What is wrong with a project; an empty list means that it can run. Also while it runs."""
    try:
        loaded = load_project(project)
    except ProjectError as error:
        return error.problems
    if is_remote(master):
        with PipelineSession(loaded, master=master, conf=conf) as session:
            return session.validate()
    wanted = {**loaded.settings(), **(conf or {})}
    with (
        _validation_log(loaded) as log,
        copied_catalog(loaded, wanted) as settings,
        start_engine(master, settings, app_name=loaded.name, log=log) as engine,
        PipelineSession(loaded, conf=conf, engine=engine) as session,
    ):
        if settings != wanted:  # a copy, where the database may be made that a run would make
            try:
                session.make_database()
            except ProjectError as error:
                return session._problems_of(error)
        return session.validate(ask_brokers=ask_brokers)


@contextlib.contextmanager
def _validation_log(project: Project) -> Iterator[Path]:
    """Not that of runs, one of which may be alive; and no storage is made for it: then it stays only where Spark has
    failed, whose error names it."""
    if project.notes.is_dir():
        yield project.notes / VALIDATION_LOG_FILE
        return
    with contextlib.ExitStack() as cleaning:
        file, name = tempfile.mkstemp(prefix="runnel-validate-", suffix=".log")
        os.close(file)
        cleaning.callback(os.unlink, name)
        try:
            yield Path(name)
        except EngineFailed:
            cleaning.pop_all()
            raise


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
