"""A SPARK_HOME whose Python workers start in a third of the time: PySpark's own folder without its `pyspark.zip`.

Spark puts that zip in front of each worker's path. It holds sources only, and nothing that is imported from a zip is
ever kept compiled: every process that Spark starts compiles PySpark anew, more than a second of CPU, several times
before the first row and once for every stream. Without it workers import the installed package, which is the same.

In: the environment. Out: a folder of links in the user's cache, or None where Spark's own folder must do.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from runnel.spark.java import cache_dir

LIBRARIES = Path("python", "lib")
ZIP_NAME = "pyspark.zip"


def spark_home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Made once for each installation of PySpark; None where it is no pip package, or nothing can be made."""
    import pyspark

    package = Path(pyspark.__file__).parent
    if not (package / "jars").is_dir() or not (package / LIBRARIES / ZIP_NAME).is_file():
        return None
    name = hashlib.sha256(f"{package} {pyspark.__version__}".encode()).hexdigest()[:12]
    return mirror(package, cache_dir(environ) / f"spark-home-{name}")


def mirror(package: Path, home: Path) -> Path | None:
    """Links to all that is in the package, but for the zip. Beside its place first: what is there is complete."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        if not home.is_dir():
            with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
                _link(package, Path(scratch, "home"))
                Path(scratch, "home").rename(home)
    except OSError:  # a read-only home, no links on this system, or another process was first
        pass
    # What lies there is run, so it must be ours.
    return home if home.is_dir() and home.stat().st_uid == os.getuid() else None


def _link(package: Path, home: Path) -> None:
    (home / LIBRARIES).mkdir(parents=True)
    (home / "conf").symlink_to(package / "conf")  # the user's to make, perhaps later
    for folder in (Path(), LIBRARIES.parent, LIBRARIES):
        for entry in (package / folder).iterdir():
            target = home / folder / entry.name
            if entry.name not in (ZIP_NAME, "__pycache__") and not target.exists():
                target.symlink_to(entry)
