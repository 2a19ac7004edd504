"""Kernels never touch what is not theirs, whatever the bytes say (`make test-spark`)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("walk_hostile_batches.py")
ROUNDS = 20_000
TIMEOUT_S = 900


@pytest.mark.slow
def test_damaged_batches_stay_within_their_bounds(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    environ = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(PROGRAM), str(seed), str(ROUNDS)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stdout.startswith(f"{ROUNDS} logs")
