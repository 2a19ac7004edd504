"""The memory of requests: counted, reused, bounded."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from runnel.broker.buffers import POOL_CLASSES, POOL_RETAINED_BYTES_MAX, BufferPool


def test_a_buffer_is_large_enough_and_counted_until_it_is_back() -> None:
    pool = BufferPool(1 << 30)
    for size in (1, POOL_CLASSES[0], POOL_CLASSES[0] + 1, POOL_CLASSES[-1] + 1):
        buffer = pool.take(size)
        assert len(buffer) >= size
        assert pool.held_bytes == len(buffer)
        pool.give_back(buffer)
        assert pool.held_bytes == 0


def test_a_buffer_is_used_again() -> None:
    pool = BufferPool(1 << 30)
    first = pool.take(100_000)
    pool.give_back(first)
    assert pool.take(90_000) is first


def test_the_pool_keeps_no_more_than_its_limit() -> None:
    pool = BufferPool(1 << 40)
    taken = [pool.take(POOL_CLASSES[-1]) for _ in range(64)]
    for buffer in taken:
        pool.give_back(buffer)
    again = [pool.take(POOL_CLASSES[-1]) for _ in range(64)]
    kept = {id(buffer) for buffer in taken} & {id(buffer) for buffer in again}
    assert len(kept) == POOL_RETAINED_BYTES_MAX // POOL_CLASSES[-1]


def test_it_says_when_the_budget_is_used_up() -> None:
    pool = BufferPool(POOL_CLASSES[0] * 2)
    first, second = pool.take(10), pool.take(10)
    assert pool.exhausted
    pool.give_back(first)
    assert not pool.exhausted
    pool.give_back(second)


FAULTS_OF_TWENTY_REPLIES = """
import resource, sys
from runnel.broker.buffers import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def reply():
    return [b"x" * (1 << 20) for _ in range(12)]
reply()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    reply()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_the_memory_of_one_reply_serves_the_next_without_page_faults() -> None:
    def faults(mode: str) -> int:
        command = [sys.executable, "-c", FAULTS_OF_TWENTY_REPLIES, mode]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert faults("keep") < 1000 < 20_000 < faults("leave")  # 12 MiB are 3072 pages
