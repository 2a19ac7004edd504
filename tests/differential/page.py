"""docs/differences.md, made from the table of accepted differences. Run as a program, it writes the page."""

from __future__ import annotations

from pathlib import Path

from differential.accepted import SECTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"

HEAD = """# Where Runnel answers otherwise than Apache Kafka

<!-- made by `make docs` from tests/differential/accepted.py; do not edit -->

`make test` sends the same requests to Apache Kafka 4.3.1 and to Runnel, in every version of every API that Runnel
advertises: scripted ones, ones made from the schemas alone, and random sequences (`make diff SEEDS=100` plays many).
Replies are compared field by field. What must differ (hosts, ids that brokers make up, the clock, the wording of
messages, the order of arrays whose items have keys) is named in `tests/differential/normal.py` and `compare.py`;
everything else that differs is a row below, and a row that no longer occurs fails the test. Differences by design that
no single reply shows are in [limits](limits.md).
"""


def rendered() -> str:
    lines = [HEAD]
    for title, rows in SECTIONS.items():
        lines += [f"## {title}\n", "| what | why |", "|---|---|"]
        lines += [f"| {row.what} | {row.why} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(rendered())
