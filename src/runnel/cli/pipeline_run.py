"""`runnel pipeline run`: one run, or one after the other until it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runnel.cli.extras import plain_words
from runnel.cli.options import DurationType, json_option
from runnel.cli.pipeline import EXTRA, project_argument, spark_options
from runnel.cli.pipeline_stop import StopRequest
from runnel.cli.pipeline_view import View, choose_view, show_refusal

if TYPE_CHECKING:
    from runnel.spark.pipelines import FlowProgress, PipelineSession, RunResult
    from runnel.spark.pipelines.notes import RunNotes

EXIT_FAILED = 1


@click.command()
@project_argument
@click.option("--every", "every_ms", type=DurationType(), help="Run again and again, this long after each other.")
@click.option("--full-refresh", multiple=True, metavar="TABLE", help="Empty this table and compute it anew.")
@click.option("--full-refresh-all", is_flag=True, help="Empty all tables and compute them anew.")
@click.option("--refresh", multiple=True, metavar="TABLE", help="Update only this table; may be repeated.")
@spark_options
@json_option
def run(
    project: str,
    every_ms: int | None,
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
    refresh: tuple[str, ...],
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    as_json: bool,
) -> int:
    """Process all that is there, showing rows per second, batch time, lag and state of each flow.

    The next run goes on where this one ended. Exit code 0: done, or stopped between two runs; 1: a flow failed, or
    something is wrong with the project; 143 (130 by Ctrl-C): cut short in the middle of a run.
    """
    if full_refresh_all and (full_refresh or refresh):
        raise click.UsageError("--full-refresh-all leaves nothing to choose: omit --full-refresh and --refresh")
    try:
        with plain_words(EXTRA):
            from runnel.spark.pipelines import PipelineSession
            from runnel.spark.pipelines.notes import RunNotes
            from runnel.spark.pipelines.project import load_project

            loaded = load_project(project)
            stop = StopRequest()
            chosen = (full_refresh, full_refresh_all, refresh)
            with (
                RunNotes(loaded) as notes,
                stop.listening(),
                PipelineSession(loaded, master=master, conf=dict(conf), notes=notes) as session,
            ):
                loop = RunLoop(session, notes, choose_view(as_json), stop)
                return loop.run_once(*chosen) if every_ms is None else loop.run_every(every_ms, *chosen)
    except click.ClickException as error:
        if not as_json:
            raise
        show_refusal(error)
        return EXIT_FAILED


class RunLoop:
    def __init__(self, session: PipelineSession, notes: RunNotes, view: View, stop: StopRequest) -> None:
        self._session = session
        self._notes = notes
        self._view = view
        self._stop = stop

    def run_every(
        self, every_ms: int, full_refresh: tuple[str, ...], everything: bool, refresh: tuple[str, ...]
    ) -> int:
        from runnel.spark.pipelines.notes import now_ms

        while not self._stop.is_requested:
            code = self.run_once(full_refresh, everything, refresh)
            if code:
                return code
            full_refresh, everything = (), False  # anew once, not each time
            self._notes.wait_until(now_ms() + every_ms)
            self._stop.wait(every_ms / 1000)
        return 0

    def run_once(self, full_refresh: tuple[str, ...], everything: bool, refresh: tuple[str, ...]) -> int:
        if self._stop.is_requested:
            return self._stop.exit_code
        number = self._notes.begin_run()
        self._view.begin(number)
        try:
            with self._stop.interrupting(self._session):
                result = self._session.run(
                    full_refresh=full_refresh,
                    full_refresh_all=everything,
                    refresh=refresh,
                    on_progress=self._note,
                )
            self._view.end(number, result)
        finally:
            self._view.close()
        self._notes.end_run(result.status, result.error)
        return self._exit_code(result)

    def _note(self, progress: FlowProgress) -> None:
        self._notes.note(progress)
        self._view.show(progress)

    def _exit_code(self, result: RunResult) -> int:
        if result.stopped:
            return self._stop.exit_code
        return 0 if result.ok else EXIT_FAILED
