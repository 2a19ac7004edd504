"""Popular Python users of the protocol: their hello worlds, in an environment of their own in the cache.

In: a broker's address. Out: a cell for each. The programs are in `users/`, and print "ok" or a traceback.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from compat.columns import HERE, build, cached
from compat.run import Cell

FOLDER = HERE / "users"
REQUIREMENTS = FOLDER / "requirements.txt"
USER_SECONDS = 180.0


class User(NamedTuple):
    """One hello world."""

    title: str
    package: str
    program: str
    checked: str
    arguments: tuple[str, ...] = ()


USERS = [
    User(
        "FastStream, confluent",
        "faststream",
        "faststream_hello.py",
        "a handler that publishes what it makes of each of 20 messages; topics created on first use",
        ("confluent",),
    ),
    User("FastStream, aiokafka", "faststream", "faststream_hello.py", "the same", ("aiokafka",)),
    User(
        "Quix Streams",
        "quixstreams",
        "quixstreams_count.py",
        "a stateful word count; the local state is lost, and comes back from its compacted changelog topic",
    ),
]


def version(user: User) -> str:
    found = re.search(rf"^{user.package}==(\S+)$", REQUIREMENTS.read_text(), re.MULTILINE)
    return found.group(1) if found else "?"


def _python() -> Path:
    """The interpreter of the users' environment; made once for these requirements."""

    def install_into(folder: Path) -> None:
        build([sys.executable, "-m", "venv", str(folder)], HERE)
        # Its scripts name the folder that it was made in; nothing here starts one.
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        build([*pip, "-r", str(REQUIREMENTS)], HERE)

    salt = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cached("users", [REQUIREMENTS], install_into, salt) / "bin" / "python"


def run_user(user: User, bootstrap: str, prefix: str) -> Cell:
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        arguments = user.arguments or (folder,)
        command = [str(_python()), "-W", "ignore", str(FOLDER / user.program), bootstrap, prefix, *arguments]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=USER_SECONDS, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired:
            return Cell("FAIL", f"still running after {USER_SECONDS:.0f} s")
    if done.returncode or done.stdout.split()[-1:] != ["ok"]:
        return Cell("FAIL", f"exit code {done.returncode}: {done.stderr[-1500:]}")
    return Cell("ok")
