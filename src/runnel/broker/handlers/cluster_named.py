"""Requests about the cluster as a whole: the refusal of a principal that may not touch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.broker.router import Context


def check_cluster(context: Context) -> None:
    """An Access without names asks for the cluster itself; whoever is denied anything is denied that."""
    if context.denied:
        raise Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
