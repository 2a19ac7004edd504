"""What a notebook needs beside a session: a cell that is interrupted ends its Spark jobs too.

In scripts PySpark's handler of SIGINT cancels them. A kernel puts its own in that place for each cell: the jobs would
go on unseen, with the next cell waiting behind them. In: a session, in a process that may run a kernel. Out: nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def end_jobs_with_cells() -> None:
    """From now on, in the kernel of this process, if it is one; once, however often it is called."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    if shell is not None:
        shell.events.register("post_run_cell", _after_cell)


def _after_cell(result: Any) -> None:
    if isinstance(result.error_in_exec, KeyboardInterrupt):
        after_interrupt()


def after_interrupt() -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession
    if session is not None and SparkContext._active_spark_context is not None:
        make_active(session)
        cancel_jobs(session)


def make_active(session: SparkSession) -> None:
    """For this thread: an interrupt breaks its connection, and the JVM's next thread for it would know no session.

    Without one Spark finds no Python source when a stream is started: DATA_SOURCE_NOT_FOUND.
    """
    jvm: Any = session._jvm
    jvm.SparkSession.setActiveSession(session._jsparkSession)


def cancel_jobs(session: SparkSession) -> None:
    """All but those of streams, which were started to go on behind the cells."""
    tracker: Any = session.sparkContext.statusTracker()
    of_streams = {job for query in session.streams.active for job in tracker.getJobIdsForGroup(str(query.runId))}
    context: Any = session.sparkContext._jsc
    for job in set(tracker.getActiveJobsIds()) - of_streams:
        context.sc().cancelJob(job)
