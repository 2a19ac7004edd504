"""Muted channels (KIP-219): replies leave at once, and then the client is not heard until its time has passed."""

from __future__ import annotations

from broker.clockwork import Client, Door, run, throttle_ms
from harness.batches import decode_values
from runnel.broker.listener import STALLED_FRAME_S, SWEEP_INTERVAL_S

PRODUCE = "producer_byte_rate"
C1 = (("client-id", "c1"),)
METADATA = (3, 9, {"topics": None})


async def limited(door: Door, rate: float = 1000, client_id: str | None = "c1") -> Client:
    await door.set_quotas({C1: {PRODUCE: rate}})
    return await door.connect(client_id)


def test_the_reply_leaves_at_once_and_the_next_request_waits() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door)
        client.produce(20_000)
        client.send(*METADATA)
        waits_ms = throttle_ms(await client.reply())
        assert 10_000 < waits_ms < 10_200  # 20 kB at 1 kB a second, of which the window forgives 10 s
        assert await client.has_nothing(door)
        await door.advance(waits_ms / 1000 - 0.001)
        assert await client.has_nothing(door)
        await door.advance(0.002)
        assert throttle_ms(await client.reply()) == 0

    run(scenario)


def test_requests_that_came_in_one_piece_wait_too_and_are_answered_in_order() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door)
        for _ in range(3):
            client.produce(20_000)
        first_ms = throttle_ms(await client.reply())
        assert await client.has_nothing(door)
        assert door.application.listener.requests.held_bytes > 40_000
        await door.advance(first_ms / 1000 + 0.001)
        second_ms = throttle_ms(await client.reply())
        assert second_ms > 0
        assert await client.has_nothing(door)
        await door.advance(second_ms / 1000 + 0.001)
        assert throttle_ms(await client.reply()) > 0
        assert door.application.listener.requests.held_bytes == 0

    run(scenario)


def test_produces_that_wait_for_the_disk_are_throttled_when_they_are_appended() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door)
        for _ in range(3):
            client.produce(20_000, acks=-1)
        first_ms = throttle_ms(await client.reply())
        assert first_ms > 10_000
        assert await client.has_nothing(door)
        partition = door.application.node.partitions.open_partitions["t", 0]
        assert partition.log.end_offset == 1

    run(scenario)


def test_acks_0_is_throttled_though_nothing_says_so() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door)
        client.produce(20_000, acks=0)
        client.send(*METADATA)
        assert await client.has_nothing(door)
        await door.advance(11)
        assert throttle_ms(await client.reply()) == 0

    run(scenario)


def test_others_are_not_muted_and_who_shares_the_quota_is() -> None:
    async def scenario(door: Door) -> None:
        one, same, other = await limited(door), await door.connect("c1"), await door.connect("c2")
        one.produce(20_000)
        assert throttle_ms(await one.reply()) > 0
        other.produce(20_000)
        assert throttle_ms(await other.reply()) == 0
        assert throttle_ms(await same.ask(*METADATA)) == 0  # no bytes of its own yet
        same.produce(1)
        assert throttle_ms(await same.reply()) > 0

    run(scenario)


def test_a_removed_quota_throttles_no_more() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door)
        client.produce(20_000)
        assert throttle_ms(await client.reply()) > 0
        await door.set_quotas({C1: {PRODUCE: None}})
        assert not door.application.node.quotas.limits_clients
        fresh = await door.connect("c1")
        fresh.produce(20_000)
        assert throttle_ms(await fresh.reply()) == 0

    run(scenario)


def test_silence_that_we_asked_for_is_not_idleness() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door, rate=10)
        client.produce(20_000)
        waits_s = throttle_ms(await client.reply()) / 1000
        assert waits_s > 60
        for _ in range(int(waits_s)):
            await door.advance(SWEEP_INTERVAL_S)
        assert len(door.connections) == 1
        await door.advance(1)
        await client.ask(*METADATA)
        for _ in range(62):
            await door.advance(SWEEP_INTERVAL_S)
        assert client.reader.at_eof() or await client.reader.read() == b""
        assert not door.connections

    run(scenario, {"connections.max.idle.ms": "60000"})


def test_a_frame_that_stopped_because_of_us_has_not_stalled() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door, rate=100)
        rest = client.frame(*METADATA)
        client.produce(20_000)
        client.writer.write(rest[:10])
        waits_s = throttle_ms(await client.reply()) / 1000
        assert waits_s > STALLED_FRAME_S + 2
        assert door.application.listener.partial_frames == 0  # nobody may wait for its end
        for _ in range(int(waits_s) + 1):
            await door.advance(SWEEP_INTERVAL_S)
        assert len(door.connections) == 1
        assert door.application.listener.partial_frames == 1
        client.writer.write(rest[10:])
        client._sent.append((3, 9, 1))
        await client.reply()
        assert door.application.listener.partial_frames == 0

    run(scenario)


def test_a_frame_that_was_arriving_when_its_connection_was_muted_is_nobodys_hope() -> None:
    async def scenario(door: Door) -> None:
        await door.set_quotas({C1: {"request_percentage": 1}})
        door.busy_ns = 10_000_000_000
        client = await door.connect()
        rest = client.frame(*METADATA)
        client.produce(10, acks=-1)  # parks, so that the frame behind it begins before it is settled
        client.writer.write(rest[:10])
        assert throttle_ms(await client.reply()) == 1000
        assert door.application.listener.partial_frames == 0
        await door.advance(1.001)
        assert door.application.listener.partial_frames == 1

    run(scenario)


def test_a_client_that_hangs_up_while_muted_is_forgotten() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door, rate=1)
        client.produce(20_000)
        assert throttle_ms(await client.reply()) > 10_000_000
        assert len(door.connections) == 1
        client.writer.close()
        await client.writer.wait_closed()
        await door.advance(SWEEP_INTERVAL_S)
        await door.until(lambda: not door.connections)
        assert door.application.listener.requests.held_bytes == 0

    run(scenario)


def test_what_arrived_before_the_client_hung_up_is_carried_out_when_its_time_has_come() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door)
        client.produce(20_000, acks=0)
        await door.until(lambda: any(connection._muted for connection in door.connections))
        client.produce(5000, acks=0)
        client.writer.close()
        await client.writer.wait_closed()
        log = door.application.node.partitions.open_partitions["t", 0].log
        await door.advance(SWEEP_INTERVAL_S)
        assert log.end_offset == 1
        await door.advance(11)
        await door.until(lambda: log.end_offset == 2)
        await door.advance(60)
        await door.advance(SWEEP_INTERVAL_S)
        await door.until(lambda: not door.connections)

    run(scenario)


def test_a_broker_that_stops_answers_what_it_has_received_and_does_not_wait() -> None:
    async def scenario(door: Door) -> None:
        client = await limited(door, rate=1)
        client.produce(20_000)
        client.produce(10)
        client.send(*METADATA)
        assert throttle_ms(await client.reply()) > 10_000_000
        assert await client.has_nothing(door)
        before_s = door.loop.now_s
        await door.application.listener.drain(5)
        assert throttle_ms(await client.reply()) > 0
        await client.reply()
        assert await client.reader.read() == b""
        assert door.loop.now_s == before_s

    run(scenario)


def test_a_fetch_over_quota_is_answered_empty_and_later_in_full() -> None:
    async def scenario(door: Door) -> None:
        writer = await door.connect("writer")
        for _ in range(3):
            writer.produce(9000)
            await writer.reply()
        await door.set_quotas({C1: {"consumer_byte_rate": 1000}})
        reader = await door.connect("c1")
        offsets = []
        for offset in range(3):
            reader.fetch(offset)
            reply = await reader.reply()
            while throttle_ms(reply):
                assert reply.responses == ()
                await door.advance(throttle_ms(reply) / 1000 + 0.001)
                reader.fetch(offset)
                reply = await reader.reply()
            offsets += [found for found, _ in decode_values(reply.responses[0].partitions[0].records)]
        assert offsets == [0, 1, 2]
        assert door.loop.now_s > 1000 + 5  # 27 kB at 1 kB a second, of which the window forgives 10 s or so

    run(scenario)


def test_what_a_throttled_fetch_did_not_send_does_not_count() -> None:
    async def scenario(door: Door) -> None:
        writer = await door.connect("writer")
        writer.produce(15_000)
        await writer.reply()
        await door.set_quotas({C1: {"consumer_byte_rate": 1000}})
        waits_ms = []
        for _ in range(3):
            reader = await door.connect("c1")
            reader.fetch(0)
            waits_ms.append(throttle_ms(await reader.reply()))
        assert waits_ms[0] > 5000
        assert waits_ms == [waits_ms[0]] * 3

    run(scenario)


def test_a_fetch_never_asks_for_more_than_its_quota_could_ever_allow() -> None:
    async def scenario(door: Door) -> None:
        writer = await door.connect("writer")
        for _ in range(10):
            writer.produce(900)
            await writer.reply()
        await door.set_quotas({C1: {"consumer_byte_rate": 200}})
        reader = await door.connect("c1")
        reader.fetch(0)
        reply = await reader.reply()
        assert throttle_ms(reply) == 0
        assert len(decode_values(reply.responses[0].partitions[0].records)) == 2  # of 970 bytes each, at most 2000

    run(scenario)


def test_a_throttled_fetch_leaves_its_session_as_it_was_and_begins_none() -> None:
    async def scenario(door: Door) -> None:
        writer, sessions = await door.connect("writer"), door.application.node.fetch_sessions
        writer.produce(100)
        await writer.reply()
        await door.set_quotas({C1: {"consumer_byte_rate": 1000}})
        reader = await door.connect("c1")
        reader.fetch(0, epoch=0)
        begun = await reader.reply()
        assert begun.session_id != 0
        await door.set_quotas({C1: {"consumer_byte_rate": 1}})
        reader.fetch(0, session_id=begun.session_id, epoch=1)
        throttled = await reader.reply()
        assert (throttled.session_id, throttled.responses, throttled.error_code) == (begun.session_id, (), 0)
        assert throttle_ms(throttled) > 0
        newcomer = await door.connect("c1")
        newcomer.fetch(0, epoch=0)
        refused = await newcomer.reply()
        assert (refused.session_id, refused.responses) == (0, ())
        assert len(sessions) == 1
        await door.set_quotas({C1: {"consumer_byte_rate": 1000}})
        await door.advance(throttle_ms(throttled) / 1000 + 0.001)
        reader.fetch(0, session_id=begun.session_id, epoch=2)
        served = await reader.reply()
        assert served.error_code == 0
        assert len(decode_values(served.responses[0].partitions[0].records)) == 1

    run(scenario)
