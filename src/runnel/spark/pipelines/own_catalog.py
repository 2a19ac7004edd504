"""The catalog that is a project's own, a folder of Derby's, as far as it can be known without Spark.

In: the folder. Out: whether there is a catalog in it, and whether a process has it. Derby writes `service.properties`
last when it makes one, and a process that uses it holds a lock of the kernel on `dbex.lck`.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from pathlib import Path

LAST_FILE, LOCK_FILE = "service.properties", "dbex.lck"
FREE_S = 20.0
"""How long a JVM may take to end whose process was killed: it has the catalog until then."""
POLL_S = 0.1


def is_made(metastore: Path) -> bool:
    """Else nothing has run, or what did was killed while it made the catalog."""
    return (metastore / LAST_FILE).is_file()


def remove_half_made(metastore: Path) -> None:
    """Derby would refuse the rest for ever. Only for who knows that nobody else makes it now."""
    if metastore.is_dir() and not is_made(metastore):
        shutil.rmtree(metastore)


def wait_until_free(metastore: Path, limit_s: float) -> bool:
    """False where it is not within the limit."""
    deadline_s = time.monotonic() + limit_s
    while not _is_free(metastore / LOCK_FILE):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def _is_free(lock: Path) -> bool:
    try:
        with lock.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as Java's FileLock does
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
