"""Connections that outlive a task: the next task of the same Python worker finds them open.

In: settings. Out: a `Cluster`, for as long as the `with` lasts. One whose task failed is closed: a reply may be on its
way that nobody will read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runnel.spark.brokers.cluster import Cluster
from runnel.spark.kafka_options import BrokerSettings

_idle: dict[str, Cluster] = {}
"""By settings: what the last task of this process has left."""


@contextmanager
def kept_cluster(settings: BrokerSettings) -> Iterator[Cluster]:
    key = repr(settings)
    cluster = _idle.pop(key, None) or Cluster(settings)
    cluster.drop_dead()
    try:
        yield cluster
    except BaseException:  # also when Spark has seen enough of a generator
        cluster.close()
        raise
    if _idle.setdefault(key, cluster) is not cluster:
        cluster.close()
