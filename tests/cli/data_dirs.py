"""A data directory that a real broker wrote, and ways to damage copies of it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from cli.conftest import DEADLINE_S, command, environment
from harness.process import BrokerProcess
from runnel.wire.batch import iterate_headers

RECORDS = 9000
RECORD_BYTES = 300
RECORDS_PER_BATCH = 25


def run_command(address: str | None, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(arguments),
        input=stdin,
        capture_output=True,
        env=environment(address),
        timeout=DEADLINE_S,
        check=False,
    )


def value(number: int) -> bytes:
    return b"%d " % number + b"x" * (RECORD_BYTES - 10)


def fill(address: str) -> None:
    """Topic `orders` with three segments, and a group without members that has read 42 of them."""
    configs = ("-c", "segment.bytes=1048576", "-c", "index.interval.bytes=1024")
    lines = b"\n".join(value(number) for number in range(RECORDS))
    for arguments, stdin in (
        (("topic", "create", "orders", *configs), b""),
        (("produce", "orders", "-q", "--batch-bytes", str(RECORDS_PER_BATCH * RECORD_BYTES)), lines),
        (("group", "reset", "readers", "-t", "orders", "--to-offset", "42", "--execute"), b""),
    ):
        done = run_command(address, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr


def write_data_dir(folder: Path) -> Path:
    """Start a broker, fill it, stop it in order."""
    broker = BrokerProcess(folder)
    broker.start()
    try:
        fill(broker.address)
    finally:
        assert broker.terminate() == 0
    return broker.data_dir


def segments(data_dir: Path) -> list[Path]:
    return sorted((data_dir / "orders-0").glob("*.log"))


def batch_positions(path: Path) -> list[int]:
    return [position for position, _ in iterate_headers(path.read_bytes())]


def checked_position(path: Path) -> int:
    """A byte near the middle of a log that a checksum covers: those of a batch's first offset and leader epoch are
    not."""
    return next(
        position + header.size_bytes - 1
        for position, header in iterate_headers(path.read_bytes())
        if position + header.size_bytes > path.stat().st_size // 2
    )


def flip(path: Path, position: int, mask: int = 0x10) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file with a hash of its content: equal before and after what must change nothing."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
