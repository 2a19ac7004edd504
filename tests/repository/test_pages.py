"""Pages that are made from tables are the tables' truth; others name all that there is, and hang together."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from runnel.cli import demo_screen
from runnel.cli.lake import _document
from runnel.cli.main import cli
from runnel.client.metadata import TopicPartition
from runnel.examples.shop.outcome import Funnel, Outcome, Revenue
from runnel.examples.shop.play import Result
from runnel.spark import admin, source_options
from runnel.spark.kafka_options import REFUSED_IN_SOURCE
from runnel.spark.lake import options as lake_options
from runnel.spark.lake.verify import Proof, Verdict

ROOT = Path(__file__).parent.parent.parent
FIELDS = "Lake tables and the demo"


def test_the_configuration_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("configuration_page", ROOT / "tools" / "configuration_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "configuration.md").read_text() == module.page(), "run `make docs`"


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_links_lead_somewhere() -> None:
    broken = []
    for page in pages():
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            name, _, wanted = link.partition("#")
            target = page.parent / name if name else page
            if link.startswith("http") or (target.exists() and not wanted):
                continue
            if not target.exists() or wanted not in map(anchor, re.findall(r"^#+ (.*)$", target.read_text(), re.M)):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def test_tables_are_whole() -> None:
    """An empty line ends a table: what follows without a heading of its own is shown as text."""
    broken = []
    for page in pages():
        lines = ["", *page.read_text().splitlines(), ""]
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
            if line.startswith("|") and not before.startswith("|") and not after.startswith("|-"):
                broken.append(f"{page.name}: {line[:60]}")
    assert broken == []


def named_in(page: str, section: str = "") -> set[str]:
    """What stands there as code, lists of names taken apart."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / "docs" / page).read_text(), flags=re.M | re.S)
    text = text.partition(f"## {section}\n")[2].partition("\n## ")[0] if section else text
    return {name for code in re.findall(r"`([^`]+)`", text) for name in re.split(r"[,\s]+", code)}


def test_the_page_of_spark_has_every_option_and_table() -> None:
    assert {*source_options.KNOWN, *admin.TABLES} - named_in("spark.md") == set()
    refused = {*REFUSED_IN_SOURCE} - {"key.deserializer", "value.deserializer"}
    assert {f"kafka.{name}" for name in refused} - named_in("spark.md") == set()


def test_the_page_of_lake_tables_has_every_option() -> None:
    assert {*lake_options.KNOWN} - named_in("lake.md") == set()


@pytest.mark.parametrize("verb", [("info",), ("compact",), ("expire", "--days", "3")], ids=lambda verb: verb[0])
def test_every_field_of_the_care_for_lake_tables_is_documented(tmp_path: Path, verb: tuple[str, ...]) -> None:
    write_deltalake(tmp_path, pa.table({"event_date": pa.array([0], pa.date32())}))
    document = json.loads(CliRunner().invoke(cli, ["lake", *verb, str(tmp_path), "--json"]).stdout)
    columns = document.get("columns", [{}])
    assert {*document, *columns[0]} - named_in("cli.md", FIELDS) == set()


def test_every_field_of_proofs_and_demos_is_documented() -> None:
    """Those of pipelines are looked at in tests/spark/pipelines."""
    verified = _document(Verdict([Proof(TopicPartition("t", 0), 0, 0, 0, 0, 0, 0)], True))
    outcome = Outcome(revenue={0: Revenue(1, 2, 3)}, funnel={0: Funnel(1, 2, 3, 4)})
    played = demo_screen.document(Result({}, {}, []), outcome, [], [])
    rows = [*verified["partitions"], *played["revenue"], *played["funnel"]]
    assert {*verified, *played, "plot", *(name for row in rows for name in row)} - named_in("cli.md", FIELDS) == set()
