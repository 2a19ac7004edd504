"""A result that is wrong anywhere does not pass."""

from __future__ import annotations

import copy
from dataclasses import fields
from pathlib import Path

import pytest

from runnel.examples.shop.expected import expected_outcome
from runnel.examples.shop.folder import DemoError, DemoFolder, Ledger
from runnel.examples.shop.outcome import Outcome, differences
from runnel.examples.shop.sending import sent_records
from runnel.spark.pipelines.project import load_project

PARTS = [part.name for part in fields(Outcome)]


@pytest.fixture(scope="module")
def right() -> Outcome:
    return expected_outcome(sent_records(Ledger(1, 10, 100)))


def test_the_same_has_no_differences(right: Outcome) -> None:
    assert differences(right, copy.deepcopy(right)) == []


@pytest.mark.parametrize("part", PARTS)
def test_what_is_missing_is_named(right: Outcome, part: str) -> None:
    wrong = copy.deepcopy(right)
    getattr(wrong, part).popitem()
    (line,) = differences(right, wrong)
    assert line.startswith(part.replace("_", " "))
    assert line.endswith("found nothing")


@pytest.mark.parametrize("part", PARTS)
def test_what_is_too_much_is_named(right: Outcome, part: str) -> None:
    wrong = copy.deepcopy(right)
    key, value = getattr(wrong, part).popitem()
    getattr(wrong, part)[key] = value + 1 if isinstance(value, int) else value._replace(**{value._fields[-1]: -1})
    (line,) = differences(right, wrong)
    assert line.startswith(part.replace("_", " "))
    assert "nothing" not in line


def test_many_differences_are_summed_up(right: Outcome) -> None:
    lines = differences(right, Outcome())
    assert len(lines) < 50
    assert any(line.startswith("payments: ") and line.endswith("more differ") for line in lines)


def test_a_folder_that_no_demo_made_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DemoError, match="was not made by a demo"):
        DemoFolder(tmp_path).prepare(fresh=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_folder_that_a_demo_made_is_emptied(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / "demo")
    folder.prepare()
    ledger = folder.load(seed=3, sessions_per_minute=4)
    ledger.next_minute = 5
    folder.save(ledger)
    assert folder.load(seed=9, sessions_per_minute=9) == ledger, "a demo goes on as it began"
    folder.prepare(fresh=True)
    assert folder.load(seed=9, sessions_per_minute=9) == Ledger(9, 9)


def test_emptying_leaves_the_folder_itself_which_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "lake").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder = DemoFolder(tmp_path / "link")
    folder.load(seed=3, sessions_per_minute=4)
    folder.prepare(fresh=True)
    assert list((tmp_path / "real").iterdir()) == []


def test_folders_are_named_as_spark_reads_them(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / "büro")
    folder.prepare()
    folder.write_project("localhost:9092")
    assert load_project(folder.project).local_storage == folder.storage
    with pytest.raises(DemoError, match="name another --folder"):
        DemoFolder(tmp_path / "my demo").prepare()


def test_a_damaged_ledger_is_told(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    folder.prepare()
    (tmp_path / "demo.json").write_text("{")
    with pytest.raises(DemoError, match="--fresh"):
        folder.load(1, 1)
