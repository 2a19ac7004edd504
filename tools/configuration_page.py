"""Writes docs/configuration.md from the config tables, so that the page cannot lie. Run by `make docs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from runnel.core.configs import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigDefinition,
    render,
)

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

This page is written by `make docs` from the tables in `src/runnel/core/configs/`.

A broker takes its settings from the command line, over the environment, over a YAML file, over the defaults:

```console
$ runnel serve --data-dir ./data --listen 0.0.0.0:9092 --set num.partitions=3
$ RUNNEL_NUM_PARTITIONS=3 runnel serve
$ runnel serve --config runnel.yaml
```

```yaml
# runnel.yaml
data-dir: ./data
listen: 0.0.0.0:9092
advertise: broker.example:9092     # default: the address that the client used
num.partitions: 3
log.retention.ms: 86400000
```

Four words are Runnel's own: `data-dir`, `listen`, `advertise`, `memory`. Everything else has Kafka's names, but for
the few keys that say they are Runnel's own. In the environment a key is `RUNNEL_` and the key in capitals with
underscores. A setting that is unknown or wrong stops the start with one line.
Settings marked *dynamic* can be changed on the running broker with any Kafka client's AlterConfigs, and take effect at
once, for one broker or, under the empty name, for all.

The broker's log levels can be changed the same way, as configs of the resource type BROKER_LOGGER: each of Runnel's
loggers is a key, `root` stands for all of them, and the levels are TRACE, DEBUG, INFO, WARN, ERROR and FATAL. They last
until the broker stops.
"""


def page() -> str:
    broker = _table(BROKER_CONFIGS.values(), "dynamic", lambda d: "" if d.read_only else "yes")
    topic = _table(TOPIC_CONFIGS.values(), "broker default", _synonym)
    group = _table(GROUP_CONFIGS.values(), "broker default", _synonym)
    metrics = _table(CLIENT_METRICS_CONFIGS.values(), "broker default", _synonym)
    chapters = (
        ("Broker settings", broker),
        ("Topic configs", topic),
        ("Group configs", group),
        ("Client metrics subscriptions", metrics),
    )
    return INTRODUCTION + "".join(f"\n## {title}\n\n{table}" for title, table in chapters)


def _synonym(definition: ConfigDefinition) -> str:
    return f"`{definition.broker_synonym}`" if definition.broker_synonym in BROKER_CONFIGS else ""


def _table(definitions: Iterable[ConfigDefinition], column: str, value: Callable[[ConfigDefinition], str]) -> str:
    rows = [f"| key | default | {column} | meaning |", "|---|---|---|---|"]
    for definition in definitions:
        effect = "" if definition.effective else " **Accepted, without effect so far.**"
        cells = (f"`{definition.name}`", _default(definition), value(definition), definition.documentation + effect)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _default(definition: ConfigDefinition) -> str:
    text = render(definition.default)
    return "" if text is None else f"`{text}`" if text else "empty"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE.relative_to(Path.cwd())}")
