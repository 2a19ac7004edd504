"""Idempotent producers through a proxy that loses replies: the broker has the batch, the client sends it again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clients.drivers import Driver, Sent
from clients.drivers.confluent_driver import ConfluentDriver
from harness.proxy import CuttingProxy
from harness.topics import read_all

NewTopic = Callable[..., str]
PRODUCE = 0
RECORDS = 400


def lose_some_replies(api_key: int, number: int) -> bool:
    return api_key == PRODUCE and number in (1, 3, 4, 8)


def numbered() -> list[Sent]:
    return [Sent(f"{index:06d}".encode() * 10, key=b"k") for index in range(RECORDS)]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_no_duplicates_when_replies_are_lost(
    client: Driver, new_topic: NewTopic, bootstrap: str, compression: str
) -> None:
    topic = new_topic()
    with CuttingProxy(bootstrap, lose_some_replies) as proxy:
        options = {"idempotent": True, "batch_bytes": 2000, "bootstrap": proxy.address}
        client.produce(topic, numbered(), compression=compression, **options)
        assert proxy.cuts >= 2, proxy.requests_by_key
    values = [message.value() for message in read_all(bootstrap, topic)]
    assert values == [sent.value for sent in numbered()]


def test_the_proxy_does_cause_duplicates_without_idempotence(new_topic: NewTopic, bootstrap: str) -> None:
    """The test above could not fail otherwise."""
    topic = new_topic()
    with CuttingProxy(bootstrap, lose_some_replies) as proxy:
        client = ConfluentDriver(bootstrap)
        client.produce(topic, numbered(), batch_bytes=2000, bootstrap=proxy.address)
    values = [message.value() for message in read_all(bootstrap, topic)]
    assert len(values) > RECORDS
    assert set(values) == {sent.value for sent in numbered()}
