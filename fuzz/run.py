"""Runs one target under atheris: `python -m fuzz.run frames [libFuzzer options]`.

Finds go to a folder outside the corpus; one worth keeping is copied into corpus/ by hand, where `make test` replays it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import atheris

CORPUS = Path(__file__).parent / "corpus"
TARGETS = {"frames": ("fuzz.fuzz_frames", "check_frame"), "batches": ("fuzz.fuzz_batches", "check_batches")}
# A decoder that allocates by a length it was told, in place of the bytes it was given, dies here.
LIMITS = ("-rss_limit_mb=1024", "-malloc_limit_mb=256", "-timeout=10", "-max_len=8192")


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m fuzz.run {'|'.join(TARGETS)} [libFuzzer options]")
    name = sys.argv[1]
    module, function = TARGETS[name]
    with atheris.instrument_imports(include=["runnel", "fuzz"]):
        target = getattr(importlib.import_module(module), function)
    grown = Path(".fuzz") / name  # what libFuzzer learns while it runs
    grown.mkdir(parents=True, exist_ok=True)
    arguments = [sys.argv[0], *LIMITS, f"-artifact_prefix={grown.parent}/{name}-", *sys.argv[2:], str(grown)]
    atheris.Setup([*arguments, str(CORPUS / name)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
