"""`kernel`: numba's compiler with a cache on disk, so that of all executors of a machine only one ever compiles.

In: a function of arrays and numbers. Out: the same, compiled at its first call, or loaded from the cache then.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def _choose_cache_dir() -> None:
    """Before numba is imported: a cache of our own, which also exists where the package's folder is read-only.

    Executors in containers often have neither a writable package nor a home; numba refuses to cache there at all.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    owner = os.getuid() if hasattr(os, "getuid") else 0
    for candidate in (Path(home, "runnel", "kernels"), Path(tempfile.gettempdir(), f"runnel-kernels-{owner}")):
        try:
            candidate.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        # What lies in the cache is executed, so the folder must be ours and nobody else's to write.
        status = candidate.stat()
        if os.access(candidate, os.W_OK) and status.st_uid == owner and not status.st_mode & 0o022:
            os.environ["NUMBA_CACHE_DIR"] = str(candidate)
            return


_choose_cache_dir()

import numba  # noqa: E402  after the cache folder is chosen


def kernel(function: Function) -> Function:
    """Compiled without the GIL. Indices are checked by the kernels themselves, once per record and not per byte."""
    try:
        compiled: Function = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder can be written at all: compile in every process
        compiled = numba.njit(nogil=True)(function)
    return compiled
