"""What Spark's dry run does not look at: whether brokers answer, topics exist, options make sense, sinks get columns.

In: what a project defines. Out: problems. Brokers are asked with little patience: somebody is waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructField, StructType

from runnel.client.configs import ResourceType
from runnel.client.errors import ClientError, known_code
from runnel.spark.brokers.cluster import Cluster
from runnel.spark.errors import OptionError
from runnel.spark.kafka_options import BrokerSettings
from runnel.spark.lake.options import parse_lake_options
from runnel.spark.pipelines.definitions import Definitions, FlowDefinition
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.spec_file import Problem
from runnel.spark.sink_options import parse_sink_options
from runnel.spark.source_options import (
    Assign,
    SourceOptions,
    Subscribe,
    batch_limits,
    parse_source_options,
    stream_start,
)
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode

if TYPE_CHECKING:
    from pyspark.pipelines.output import Sink

ANSWER_S = 5.0
"""How long a broker may take to answer before it is called unreachable."""
RESTART_S = 30.0
"""How long a broker that answered before may be away."""
TOPIC_SINK, LAKE_SINK = "runnel", "runnel-lake"
_ANY_ROW = StructType([StructField("value", StringType()), StructField("topic", StringType())])


class Brokers:
    """Asks each cluster once what a project wants to know of it. `known`: they have answered before, so a restart is
    waited for."""

    def __init__(self, *, known: bool = False) -> None:
        self._patience_s = RESTART_S if known else 0.0
        self._failed: dict[str, str] = {}

    def missing_topics(self, settings: BrokerSettings, topics: set[str], *, created: bool) -> Iterator[str]:
        """Reasons why these topics cannot be used; with `created`, one that the broker would create is no problem."""
        if settings.bootstrap in self._failed:
            return  # said once
        timeout_s = min(ANSWER_S, settings.request_timeout_s)
        quick = replace(settings, patience_s=min(self._patience_s, settings.patience_s), request_timeout_s=timeout_s)
        try:
            with Cluster(quick) as cluster:
                found = cluster.refresh(sorted(topics)).topics
                wrong = {name: found[name].error_code for name in sorted(topics) if found[name].error_code}
                if created and ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in wrong.values() and _creates_topics(cluster):
                    wrong = {name: code for name, code in wrong.items() if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
                yield from (_reason(name, code, settings.bootstrap) for name, code in wrong.items())
        except ClientError as error:
            self._failed[settings.bootstrap] = error.message
            yield f"the broker at {settings.bootstrap} does not answer ({error.message}): start it with `runnel serve`"


def _reason(topic: str, code: int, bootstrap: str) -> str:
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"topic '{topic}' at {bootstrap}: {known_code(code).name.lower().replace('_', ' ')}"
    return f"there is no topic '{topic}' at {bootstrap}: create it with `runnel topic create {topic} -b {bootstrap}`"


def _creates_topics(cluster: Cluster) -> bool:
    wanted = {
        "resource_type": ResourceType.BROKER,
        "resource_name": str(min(cluster.view.brokers, default=0)),
        "configuration_keys": ["auto.create.topics.enable"],
    }
    try:
        reply = cluster.call(ApiKey.DESCRIBE_CONFIGS, {"resources": [wanted]})
    except ClientError:
        return True  # a broker that does not let us ask: better no complaint than a wrong one
    configs = [config for result in reply.results for config in result.configs]
    return all(config.value != "false" for config in configs)


def check_sources(noted: Definitions, brokers: Brokers | None) -> Iterator[Problem]:
    for flow in noted.flows.values():
        for source in flow.sources:
            try:
                options = parse_source_options(source.options)
                if source.is_streaming:
                    stream_start(options)
                else:
                    batch_limits(options)
            except OptionError as error:
                yield _at(flow, str(error))
                continue
            topics = _named_topics(options)
            if brokers is not None:
                for reason in brokers.missing_topics(options.brokers, topics, created=False):
                    yield _at(flow, reason)


def _named_topics(options: SourceOptions) -> set[str]:
    if isinstance(options.strategy, Subscribe):
        return set(options.strategy.topics)
    if isinstance(options.strategy, Assign):
        return {target.topic for target in options.strategy.partitions}
    return set()  # a pattern may match topics that are still to come


def check_sinks(project: Project, noted: Definitions, brokers: Brokers | None) -> Iterator[Problem]:
    """The options of our own sinks; their columns are `columns.py`'s business."""
    for sink in noted.sinks.values():
        try:
            reasons = [*_sink_reasons(sink, brokers), *_shared_id(sink, noted)]
        except OptionError as error:
            reasons = [str(error)]
        yield from (at_sink(project, sink, reason) for reason in reasons)


def _sink_reasons(sink: Sink, brokers: Brokers | None) -> Iterator[str]:
    if sink.format == TOPIC_SINK:
        options = parse_sink_options(sink.options, _ANY_ROW)
        if options.topic is not None and brokers is not None:
            yield from brokers.missing_topics(options.brokers, {options.topic}, created=True)
    elif sink.format == LAKE_SINK:
        parse_lake_options(sink.options)


def _shared_id(sink: Sink, noted: Definitions) -> Iterator[str]:
    """The batches of a second writer would be taken for those of the first."""
    writers = sorted(flow.name for flow in noted.flows.values() if flow.target == sink.name)
    if sink.format == LAKE_SINK and len(writers) > 1 and (named := parse_lake_options(sink.options).app_id):
        yield (
            f"appId '{named}' is for one flow, and {' and '.join(writers)} write here: leave it out, which gives each "
            "its own, or make a sink for each"
        )


def _at(flow: FlowDefinition, message: str) -> Problem:
    return Problem(message, flow.file, flow.line, flow.name)


def at_sink(project: Project, sink: Sink, message: str) -> Problem:
    place = sink.source_code_location
    return Problem(f"sink {sink.name}: {message}", project.relative(place.filename), place.line_number)
