"""`settle()`: what a Python worker of Spark has loaded is kept out of the garbage collector's sight.

Spark's daemon collects garbage after every task of a worker that it will use again. With numba, pyarrow and our kernels
loaded that walks through a hundred thousand objects which are never garbage: 40 to 90 ms of CPU per task, on both
workers of a stream from topic to topic more than all else that a small trigger does in Python.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle(work: str) -> None:
    """Call after each piece of `work` that brings modules along; only the first of a process does anything."""
    gc.collect()
    gc.freeze()
