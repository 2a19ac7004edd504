"""The JVM of pipelines: who can reach it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from runnel.spark.pipelines import Engine


def test_nothing_listens_beyond_this_machine(engine: Engine) -> None:
    listening = [
        connection.laddr.ip
        for connection in psutil.Process(engine._gateway.proc.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    for address in listening:
        parsed = ipaddress.ip_address(address)
        mapped = getattr(parsed, "ipv4_mapped", None)
        assert (mapped or parsed).is_loopback, listening


def test_the_door_asks_for_the_token(engine: Engine) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession

    address = engine.url.partition(";")[0]
    stranger = SparkSession(f"{address};token=guessed")
    with pytest.raises(PySparkException, match=r"(?i)token|authenti"):
        stranger.sql("select 1")
    stranger.client.close()
