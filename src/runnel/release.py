"""Which release of Runnel this is."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    # Imported here: reading package metadata takes longer than all that `runnel serve` does before it listens.
    from importlib import metadata

    try:
        return metadata.version("runnel")
    except metadata.PackageNotFoundError:  # a source tree that was never installed
        return "0.0.0"
