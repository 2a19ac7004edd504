"""A machine that is loaded anew, on a log that another life has written."""

from __future__ import annotations

import asyncio

from runnel.core.metadata import NewTopic
from runnel.services.hosting import Host
from runnel.services.node import Node
from runnel.services.partitions import now_ms
from runnel.wire.batch import encode_batch, read_header

Pair = tuple[bytes | None, bytes | None]


class Pairs:
    def encode(self, record: Pair) -> Pair:
        return record

    def decode(self, key: bytes | None, value: bytes | None) -> Pair:
        return key, value


def test_what_was_loaded_but_is_not_on_disk_is_not_told_yet() -> None:
    async def scenario() -> None:
        node = await Node.start(None, {}, 64)
        await node.topics.create([NewTopic("t", 1)], False)
        partition = await node.partitions.open("t", 0)
        batch = encode_batch([(now_ms(), b"k", b"v", ())])
        partition.log.append(memoryview(batch), read_header(batch), 0, now_ms())
        seen: list[Pair] = []
        host: Host[Pair] = Host(partition, Pairs(), seen.extend, node._flusher, now_ms)
        assert await host.load_off_loop() == 1
        assert seen == [(b"k", b"v")]
        assert not host.is_settled
        await host.settled()
        assert host.is_settled
        assert partition.log.flushed_offset == 1
        await node.stop()

    asyncio.run(scenario())
