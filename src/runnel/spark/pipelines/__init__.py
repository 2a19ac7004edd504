"""Pipelines: Spark Declarative Pipelines projects over topics, checked, run and watched (extra `runnel[pipelines]`).

Owns: the Connect server that they run on, what is checked before a run, figures and notes of runs, and the words for
what failed. In: projects (`spark-pipeline.yml`), plain ones that Spark's own `spark-pipelines` runs as well. Out:
`RunResult`s, problems, metrics. Imports PySpark and the rest of `runnel.spark`.

    from runnel.spark.pipelines import PipelineSession

    with PipelineSession("shop") as session:
        result = session.run(on_progress=print)
        session.spark.table("revenue").show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnel.spark.pipelines.engine import Engine, start_engine
    from runnel.spark.pipelines.failures import FlowFailure
    from runnel.spark.pipelines.flow_progress import FlowProgress
    from runnel.spark.pipelines.run_result import RunResult
    from runnel.spark.pipelines.running import PipelineSession, run, validate
    from runnel.spark.pipelines.spec_file import Problem, ProjectError

__all__ = [
    "Engine",
    "FlowFailure",
    "FlowProgress",
    "PipelineSession",
    "Problem",
    "ProjectError",
    "RunResult",
    "run",
    "start_engine",
    "validate",
]

# Name -> module. On demand: `runnel pipeline status` must not wait for Spark.
_EXPORTS = {
    "Engine": "engine",
    "start_engine": "engine",
    "FlowFailure": "failures",
    "FlowProgress": "flow_progress",
    "Problem": "spec_file",
    "ProjectError": "spec_file",
    "PipelineSession": "running",
    "RunResult": "run_result",
    "run": "running",
    "validate": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'runnel.spark.pipelines' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"runnel.spark.pipelines.{_EXPORTS[name]}"), name)
