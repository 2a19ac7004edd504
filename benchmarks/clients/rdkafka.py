"""Owns the librdkafka load client: builds rdbench.c once, or falls back to the Python binding, and runs it.

The library is the one inside the confluent-kafka wheel (newer than most distributions carry), so a C compiler
is all that is needed. In: a mode and its options. Out: the JSON line that the client printed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.kafka_jars import cache_dir

SOURCES = Path(__file__).parent
RUN_TIMEOUT_S = 300


class ClientFailed(Exception):
    """A load client reported lost, doubled or changed records, or could not finish."""


class Rdkafka:
    """The client's command line, ready to run."""

    def __init__(self) -> None:
        binary = _built_binary()
        self.is_native = binary is not None
        fallback = [sys.executable, "-m", "benchmarks.clients.confluent_client"]
        self._command = [str(binary)] if binary else fallback
        self.version: str = self.run("version")["librdkafka"]

    def describe(self) -> str:
        return f"librdkafka {self.version} ({'C client' if self.is_native else 'through the Python binding'})"

    def run(self, mode: str, **options: object) -> dict[str, Any]:
        """Options are rdbench's; `producer` and `consumer` are mappings of librdkafka settings."""
        arguments = [mode]
        for prefix, name in (("p", "producer"), ("c", "consumer")):
            settings = options.pop(name, {})
            if not isinstance(settings, dict):
                raise TypeError(f"{name} settings must be a dict")
            arguments += [f"{prefix}.{key}={value}" for key, value in settings.items()]
        arguments += [f"{key}={value}" for key, value in options.items()]
        return _run_to_json([*self._command, *arguments])


def _run_to_json(command: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"the librdkafka client did not finish within {RUN_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise ClientFailed(done.stderr.strip() or f"the librdkafka client exited with {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _built_binary() -> Path | None:
    """Compile into the cache under a name that changes with sources and library; None if impossible."""
    compiler, library = shutil.which("cc") or shutil.which("gcc"), _bundled_library()
    if compiler is None or library is None:
        return None
    digest = hashlib.sha256(str(library).encode())
    for source in ("rdbench.c", "rdkafka_subset.h"):
        digest.update((SOURCES / source).read_bytes())
    binary = cache_dir() / "bench" / f"rdbench-{digest.hexdigest()[:16]}"
    if not binary.exists():
        _compile(compiler, library, binary)
    return binary


def _bundled_library() -> Path | None:
    for file in metadata.files("confluent-kafka") or ():
        if file.name.startswith("librdkafka") and ".so" in file.name:
            return Path(str(file.locate())).resolve()
    return None


def _compile(compiler: str, library: Path, binary: Path) -> None:
    binary.parent.mkdir(parents=True, exist_ok=True)
    scratch = binary.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-Wall", "-o", str(scratch), str(SOURCES / "rdbench.c"), str(library)]
    command += ["-lpthread", f"-Wl,-rpath,{library.parent}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClientFailed(f"rdbench.c does not compile:\n{done.stderr}")
    scratch.rename(binary)
