"""kcat as a process, the way people use it in shells. One kcat call per record where a null or a header differs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from clients.drivers import Received, Sent, Unsupported

CALL_SECONDS = 60.0


class KcatDriver:
    name = "kcat"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        if shutil.which("kcat") is None:
            pytest.skip("kcat is not installed")

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            ["kcat", "-b", self.bootstrap, *arguments],
            input=stdin,
            capture_output=True,
            timeout=CALL_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise KcatFailed(f"exit {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def produce(self, topic: str, messages: Sequence[Sent], **options: Any) -> list[int]:
        if any(sent.timestamp_ms is not None for sent in messages):
            raise Unsupported("kcat cannot set timestamps")
        if "bootstrap" in options:
            raise Unsupported("kcat gives up when its only broker disconnects")
        settings = [
            f"acks={options.get('acks', 'all')}",
            f"compression.codec={options.get('compression', 'none')}",
            f"enable.idempotence={str(options.get('idempotent', False)).lower()}",
            f"batch.size={options.get('batch_bytes', 1_000_000)}",
            "retry.backoff.ms=20",
            f"message.max.bytes={options.get('request_bytes_max', 1_000_000)}",
        ]
        flags = [part for setting in settings for part in ("-X", setting)]
        for group in _alike(messages):
            self._produce_group(topic, group, flags)
        return []

    def _produce_group(self, topic: str, group: Sequence[Sent], flags: list[str]) -> None:
        first = group[0]
        arguments = ["-P", "-t", topic, "-p", str(first.partition), "-D", "\x1e", *flags]
        if first.value is None or first.key is None or first.value == b"":
            arguments.append("-Z")  # an empty field is null
        if first.value == b"":
            raise Unsupported("kcat cannot tell an empty value from a null one with a null key")
        for name, value in first.headers:
            if value is None:
                arguments += ["-H", name]
            else:
                arguments += ["-H", f"{name}={value.decode()}"]
        lines = []
        for sent in group:
            line = sent.value or b""
            lines.append(line if sent.key is None else sent.key + b"\x1f" + line)
        if first.key is not None:
            arguments += ["-K", "\x1f"]
        self._run(*arguments, stdin=b"\x1e".join(lines))

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        place = {"earliest": "beginning", "latest": "end"}.get(str(start), str(start))
        arguments = ["-C", "-t", topic, "-p", str(partition), "-o", place, "-c", str(count), "-q", "-J"]
        arguments += ["-X", "check.crcs=true"]
        lines = self._run(*arguments).decode().splitlines()
        return [_received(json.loads(line)) for line in lines]

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        return self._query(topic, partition, -2), self._query(topic, partition, -1)

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        found = self._query(topic, partition, timestamp_ms)
        return found if found >= 0 else None

    def _query(self, topic: str, partition: int, timestamp_ms: int) -> int:
        # Prints "topic [partition] offset N".
        answer = self._run("-Q", "-t", f"{topic}:{partition}:{timestamp_ms}").decode()
        return int(answer.split()[-1])

    def partition_count(self, topic: str) -> int:
        listing = json.loads(self._run("-L", "-J", "-t", topic, "-X", "allow.auto.create.topics=true"))
        return len(listing["topics"][0]["partitions"])


class KcatFailed(Exception):
    """kcat ended with an error; the message is its stderr."""


def _alike(messages: Sequence[Sent]) -> list[list[Sent]]:
    """Runs of records that one kcat call can send: same partition, same headers, keys and values alike in nullness."""
    groups: list[list[Sent]] = []
    for sent in messages:
        shape = (sent.partition, sent.headers, sent.key is None, sent.value is None)
        last = groups[-1][-1] if groups else None
        if last and shape == (last.partition, last.headers, last.key is None, last.value is None):
            groups[-1].append(sent)
        else:
            groups.append([sent])
    return groups


def _received(line: dict[str, Any]) -> Received:
    flat = line.get("headers", [])
    headers = tuple((flat[i], _bytes(flat[i + 1])) for i in range(0, len(flat), 2))
    append_time = line.get("tstype") == "logappend"
    place = (line["topic"], line["partition"])
    return Received(
        line["offset"], _bytes(line["payload"]), _bytes(line["key"]), headers, line["ts"], append_time, *place
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


DRIVER = KcatDriver
