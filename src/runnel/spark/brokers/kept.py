"""Connections that outlive a task: the next task of the same Python worker finds them open.

In: settings. Out: a `Cluster`, for as long as the `with` lasts, with what the task before has learnt of leaders. One
whose task failed is closed: a reply may be on its way that nobody will read. So is one that has lost a connection: what
it knows may be as old as the broker that has gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runnel.spark.brokers.cluster import Cluster
from runnel.spark.kafka_options import BrokerSettings

_idle: dict[BrokerSettings, Cluster] = {}
"""What the last task of this process has left."""


@contextmanager
def kept_cluster(settings: BrokerSettings) -> Iterator[Cluster]:
    cluster = _idle.pop(settings, None)
    if cluster is None or not cluster.is_unbroken():
        if cluster is not None:
            cluster.close()
        cluster = Cluster(settings)
    try:
        yield cluster
    except BaseException:  # also when Spark has seen enough of a generator
        cluster.close()
        raise
    if not cluster.is_unbroken() or _idle.setdefault(settings, cluster) is not cluster:
        cluster.close()
