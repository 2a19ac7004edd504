"""What a request is charged for: time, bytes, partitions; and whom. On a clock that only the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from broker.clockwork import Client, Door, run, throttle_ms
from runnel.broker.apis import APIS
from runnel.broker.listener import CLOSE_GRACE_S, SWEEP_INTERVAL_S
from runnel.broker.router import Api
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.fetch import encode_fetch_request
from runnel.wire.fetch_values import FetchRequest
from runnel.wire.messages import encode_request
from runnel.wire.produce import ProduceRequest, encode_produce_request

C1 = (("client-id", "c1"),)
ANONYMOUS = (("user", "ANONYMOUS"),)
ANY_USER = (("user", None),)
ANY_CLIENT = (("client-id", None),)
API_VERSIONS = (18, 3, {"client_software_name": "x", "client_software_version": "1"})
SECOND_NS = 1_000_000_000


# --- request time ---------------------------------------------------------------------------------------------


def test_every_api_says_how_long_its_client_is_muted() -> None:
    """The sampling clock jumps ten seconds at each look, so that any request costs more than a percent."""

    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"request_percentage": 1}})
        door.busy_ns = 10 * SECOND_NS
        seen = {}
        for api in APIS:
            client = await door.connect()
            client.send(api.key, api.versions[1], smallest_body(api))
            reply = await client.reply()
            if hasattr(reply, "throttle_time"):
                seen[api.key.name] = throttle_ms(reply)
            assert await client.has_nothing(door)
            client.writer.close()
        assert set(seen.values()) == {1000}, seen  # at most one sample's length, as in Kafka
        assert len(seen) > 20

    run(scenario)


def smallest_body(api: Api) -> bytes:
    version = api.versions[1]
    if api.key is ApiKey.PRODUCE:
        return encode_produce_request(version, ProduceRequest(None, 1, 0, []))
    if api.key is ApiKey.FETCH:
        return encode_fetch_request(version, FetchRequest(-1, -1, 0, 0, 0, 0, 0, -1, []))
    return encode_request(api.key, version, {})


def test_time_is_charged_as_a_percentage_of_one_thread() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"request_percentage": 10}})
        client = await door.connect()
        door.busy_ns = SECOND_NS // 2
        assert throttle_ms(await client.ask(*API_VERSIONS)) == 0
        # 50 % of a second were settled with the first reply and as much after it; the next one brings 150 % in 10 s.
        assert throttle_ms(await client.ask(*API_VERSIONS)) == 1000
        door.busy_ns = 0
        await door.advance(11)
        await door.advance(11)
        assert throttle_ms(await client.ask(*API_VERSIONS)) == 0

    run(scenario)


def test_time_in_which_a_request_only_waits_is_free() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"request_percentage": 1}})
        client, ticks = await door.connect(), []
        clock_ns = 1

        def now_ns() -> int:
            ticks.append(clock_ns)
            return clock_ns

        door.application.node.quotas.now_ns = now_ns
        client.fetch(0, wait_ms=30_000)
        await door.until(lambda: len(ticks) >= 4)  # it has begun, and been put down
        clock_ns = 30 * SECOND_NS
        await door.advance(30)
        reply = await client.reply()
        assert throttle_ms(reply) == 0
        assert reply.responses != ()

    run(scenario)


def test_acks_0_is_not_charged_for_time() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"request_percentage": 1}})
        door.busy_ns = 10 * SECOND_NS
        client = await door.connect()
        client.produce(10, acks=0)
        client.produce(10, acks=0)
        log = door.application.node.partitions.open_partitions["t", 0].log
        await door.until(lambda: log.end_offset == 2)

    run(scenario)


# --- whom -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entity", [ANONYMOUS, ANY_USER, ANY_CLIENT, C1, (*C1, *ANONYMOUS), (*ANY_CLIENT, *ANY_USER)])
def test_a_quota_holds_for_whom_it_names(entity: Any) -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({entity: {"producer_byte_rate": 1000}})
        client = await door.connect("c1")
        client.produce(20_000)
        assert throttle_ms(await client.reply()) > 10_000

    run(scenario)


def test_the_quota_of_another_user_or_client_does_not_hold() -> None:
    async def scenario(door: Door) -> None:
        rate = {"producer_byte_rate": 1000.0}
        await door.set_quotas({(("user", "ann"),): rate, (("client-id", "c2"),): rate, ANY_CLIENT: rate})
        client = await door.connect(None)  # without a client id, not even the default of client ids holds
        client.produce(20_000)
        assert throttle_ms(await client.reply()) == 0

    run(scenario)


# --- partitions (KIP-599) -------------------------------------------------------------------------------------


async def create(client: Client, version: int, *counts: int, validate_only: bool = False) -> Any:
    topics = [
        {"name": f"made-{version}-{index}-{count}", "num_partitions": count, "replication_factor": 1}
        for index, count in enumerate(counts)
    ]
    return await client.ask(19, version, {"topics": topics, "timeout": 0, "validate_only": validate_only})


def codes(rows: Any) -> list[int]:
    return [int(row.error_code) for row in rows]


LATER = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


def test_new_clients_are_told_to_come_later_topic_by_topic() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"controller_mutation_rate": 1}})
        client = await door.connect()
        reply = await create(client, 7, 20, 1)  # a burst of 11 is free, and the first may exceed it
        assert codes(reply.topics) == [0, LATER]
        assert reply.topics[1].error_message == "The throttling quota has been exceeded."
        assert throttle_ms(reply) == 9000
        assert "made-7-1-1" not in door.application.node.image.topics
        await door.advance(9.001)
        assert codes((await create(client, 7, 1)).topics) == [0]

    run(scenario)


def test_old_clients_are_served_and_then_muted() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"controller_mutation_rate": 1}})
        client = await door.connect()
        reply = await create(client, 5, 20, 1)
        assert codes(reply.topics) == [0, 0]
        assert throttle_ms(reply) == 10_000
        client.send(*API_VERSIONS)
        assert await client.has_nothing(door)

    run(scenario)


def test_partitions_that_go_and_that_are_added_count_too() -> None:
    async def scenario(door: Door) -> None:
        await create(await door.connect("other"), 7, 5, 5)
        await door.set_quotas({C1: {"controller_mutation_rate": 1}})
        client = await door.connect()
        growth = {"name": "made-7-0-5", "count": 17, "assignments": None}
        grown = await client.ask(37, 3, {"topics": [growth], "timeout": 0, "validate_only": False})
        assert codes(grown.results) == [0]  # 12 of a burst of 11
        grown = await client.ask(37, 3, {"topics": [{**growth, "count": 18}], "timeout": 0, "validate_only": False})
        assert (codes(grown.results), throttle_ms(grown)) == ([LATER], 1000)
        await door.advance(1)
        names = [{"name": "made-7-0-5", "topic_id": None}, {"name": "made-7-1-5", "topic_id": None}]
        gone = await client.ask(20, 6, {"topics": names, "timeout": 0})
        assert codes(gone.responses) == [0, LATER]
        assert throttle_ms(gone) == 17_000
        assert "made-7-1-5" in door.application.node.image.topics

    run(scenario)


def test_a_topic_that_is_refused_anyway_costs_nothing() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"controller_mutation_rate": 1}})
        client = await door.connect()
        for _ in range(3):
            reply = await client.ask(19, 7, {"topics": [{"name": "t", "num_partitions": 30, "replication_factor": 1}]})
            assert codes(reply.topics) == [int(ErrorCode.TOPIC_ALREADY_EXISTS)]
            assert throttle_ms(reply) == 0

    run(scenario)


def test_a_topic_that_is_made_by_asking_for_it_counts() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"controller_mutation_rate": 0.01}})
        client = await door.connect()
        await create(client, 5, 1)
        fresh = await door.connect()
        asked = {"topics": [{"name": "made-by-asking"}], "allow_auto_topic_creation": True}
        reply = await fresh.ask(3, 9, asked)
        assert codes(reply.topics) == [int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert throttle_ms(reply) > 0
        assert "made-by-asking" not in door.application.node.image.topics

    run(scenario)


# --- connections (KIP-612) ------------------------------------------------------------------------------------


def test_too_many_connections_of_an_address_are_kept_waiting_and_closed() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({(("ip", "127.0.0.1"),): {"connection_creation_rate": 1}})
        served = [await door.connect() for _ in range(10)]
        for client in served:
            await client.ask(*API_VERSIONS)
        turned_away = await door.connect()
        turned_away.send(*API_VERSIONS)
        await door.until(lambda: len(door.connections) == 11)
        await served[0].ask(*API_VERSIONS)
        assert not turned_away.reader.at_eof()
        await door.advance(1.001)  # at most one sample's length
        with pytest.raises((ConnectionResetError, EOFError)):
            await turned_away.reply()
        await door.until(lambda: len(door.connections) == 10)
        await door.advance(11)
        assert throttle_ms(await (await door.connect()).ask(*API_VERSIONS)) == 0

    run(scenario)


def test_who_is_kept_waiting_for_long_is_not_taken_for_one_that_does_not_read_its_last_reply() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({(("ip", None),): {"connection_creation_rate": 100}})
        for _ in range(40):
            await door.connect()
        await door.until(lambda: len(door.connections) == 40)
        await door.set_quotas({(("ip", None),): {"connection_creation_rate": 1}})
        await door.connect()
        await door.until(lambda: len(door.connections) == 41)
        for _ in range(int(CLOSE_GRACE_S) + 3):
            await door.advance(SWEEP_INTERVAL_S)
        assert len(door.connections) == 41
        await door.advance(2)
        await door.until(lambda: len(door.connections) == 40)

    run(scenario, {"quota.window.num": "2", "quota.window.size.seconds": "10"})


def test_the_default_for_addresses_holds_and_another_address_does_not() -> None:
    async def scenario(door: Door) -> None:
        quotas = door.application.node.quotas
        await door.set_quotas({(("ip", None),): {"connection_creation_rate": 1}})
        assert [quotas.connection_delay_ms("10.0.0.1") > 0 for _ in range(12)] == [False] * 10 + [True] * 2
        assert quotas.connection_delay_ms("10.0.0.2") == 0
        await door.set_quotas({(("ip", "10.0.0.1"),): {"connection_creation_rate": 100}})
        assert quotas.connection_delay_ms("10.0.0.1") == 0

    run(scenario)


def test_a_broker_that_stops_does_not_wait_for_who_was_turned_away() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({(("ip", None),): {"connection_creation_rate": 1}})
        clients = [await door.connect() for _ in range(13)]
        await door.until(lambda: len(door.connections) == 13)
        await door.application.listener.drain(5)
        for client in clients:
            assert await client.reader.read() == b""

    run(scenario)
