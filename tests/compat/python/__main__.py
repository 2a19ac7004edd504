"""`python -m compat.python CLIENT BOOTSTRAP PREFIX FEATURE...`: one JSON line for each feature, in order."""

from __future__ import annotations

import json
import sys
import traceback

import compat.python.admin
import compat.python.cluster
import compat.python.groups
import compat.python.reading
import compat.python.records  # noqa: F401 (each registers its scenarios)
from clients.drivers import Driver, load_driver
from compat.python import SCENARIOS, Run


def attempt(client: Driver, prefix: str, feature: str) -> str:
    """Empty, or what went wrong and where."""
    if feature not in SCENARIOS:
        return "the program has no such scenario"
    run = Run(client, prefix, feature)
    try:
        SCENARIOS[feature](run)
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/compat/" in frame.filename]
        place = f"{frames[-1].name}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__}: {error} (in {place})"
    finally:
        run.close()
    return ""


def main() -> int:
    name, bootstrap, prefix, *features = sys.argv[1:]
    client = load_driver(name, bootstrap)
    for feature in features:
        problem = attempt(client, prefix, feature)
        line = {"scenario": feature, "result": "FAIL" if problem else "ok", "detail": problem}
        print(json.dumps(line), flush=True)
    client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
