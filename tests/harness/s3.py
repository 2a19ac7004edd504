"""A real S3 server on this machine, for tables in an object store: versitygw, built once by Go into the user's cache.

In: a folder for its buckets. Out: its address and keys. `S3Unavailable` says why there is none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka_jars import cache_dir

from harness.conditions import wait_until
from harness.process import free_port

PROGRAM = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
BUILD_S = 900
BUCKET = "lake"


class S3Unavailable(RuntimeError):
    """Neither installed nor to be built here."""


class S3(NamedTuple):
    endpoint: str
    access_key: str = "runnel"
    secret_key: str = "only-for-tests"
    region: str = "us-east-1"


def server_program() -> str:
    found = shutil.which("versitygw") or shutil.which("versitygw", path=str(_folder()))
    if found:
        return found
    if shutil.which("go") is None:
        raise S3Unavailable("needs versitygw on the PATH, or Go to build it")
    done = subprocess.run(
        ["go", "install", PROGRAM],
        env={**os.environ, "GOBIN": str(_folder())},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode != 0:
        raise S3Unavailable(f"Go cannot build {PROGRAM}: {done.stderr[-500:]}")
    return str(_folder() / "versitygw")


def _folder() -> Path:
    return cache_dir() / "s3"


@contextlib.contextmanager
def running_s3(folder: Path) -> Iterator[S3]:
    """With one bucket, which is a folder."""
    (folder / BUCKET).mkdir(parents=True)
    port = free_port()
    s3 = S3(f"http://127.0.0.1:{port}")
    keys = ["--access", s3.access_key, "--secret", s3.secret_key, "--region", s3.region]
    command = [server_program(), *keys, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: process.poll() is not None or _answers(port), "the S3 server")
            if process.poll() is not None:
                raise S3Unavailable(f"versitygw ended with {process.returncode}")
            yield s3
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
