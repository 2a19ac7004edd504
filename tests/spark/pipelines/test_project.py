"""What is wrong with a spec, found without Spark; and where projects are."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from runnel.cli.main import cli
from runnel.spark.pipelines.notes import RunNotes
from runnel.spark.pipelines.project import load_project
from runnel.spark.pipelines.spec_file import ProjectError, find_projects
from runnel.spark.pipelines.starter import make_project

GOOD = "name: shop\nstorage: file:///tmp/shop\nlibraries:\n  - glob:\n      include: transformations/**\n"


def write(folder: Path, spec: str) -> Path:
    definitions = folder / "transformations"
    definitions.mkdir(parents=True)
    (definitions / "orders.py").write_text("")
    (folder / "spark-pipeline.yml").write_text(spec)
    return folder


def complaints(folder: Path) -> list[str]:
    with pytest.raises(ProjectError) as caught:
        load_project(folder)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            GOOD.replace("storage", "storrage"),
            "spark-pipeline.yml:2: unknown field 'storrage': did you mean 'storage'?",
        ),
        (GOOD + "owner: me\n", "unknown field 'owner': there are name, storage"),
        (GOOD.replace("name: shop\n", ""), "the field 'name' is missing"),
        (GOOD.replace("  - glob", " - glob:\n  - glob"), "spark-pipeline.yml:5: this is not YAML"),
        (GOOD.replace("file:///tmp/shop", "data"), "spark-pipeline.yml:2: storage 'data' must be an absolute URI"),
        (GOOD.replace("/**", "/sql/**"), "no file matches"),
        (GOOD.replace("/**", "/*.py"), "Only file paths, or folder paths ending with /** are allowed"),
        (GOOD.replace("glob:\n", "globs:\n"), "must be `glob: {include: transformations/**}`"),
        (GOOD + "database: 2026\n", "spark-pipeline.yml:6: database must be a text: write it in quotes"),
        (GOOD + "schema: yes\n", "spark-pipeline.yml:6: schema must be a text"),
        (GOOD + "catalog: [a]\n", "spark-pipeline.yml:6: catalog must be a text"),
        (GOOD + "configuration: [a]\n", "configuration"),
        (GOOD + "configuration:\n  spark.sql.shuffle.partitions: 2\n", "spark.sql.shuffle.partitions"),
        (GOOD.replace("file:///", "file://"), "must be an absolute URI"),
        (GOOD.replace("tmp/shop", "tmp/my shop"), "spark-pipeline.yml:2: storage has ' ' in its path"),
        (GOOD.replace("tmp/shop", "tmp/my%20shop"), "spark-pipeline.yml:2: storage has '%' in its path"),
        (GOOD.replace("name: shop", "name:"), "spark-pipeline.yml:1: name must be a text"),
        (GOOD.replace("name: shop", "name: !mine shop"), "spark-pipeline.yml:1: this is not YAML: could not determine"),
        (GOOD.replace("name: shop", "name: 2026-13-01"), "this is not YAML: month must be in"),
        (GOOD + "? [a]\n: b\n", "this is not YAML: found unhashable key"),
        ("", "must be a mapping"),
        ("- name\n", "must be a mapping"),
    ],
)
def test_a_spec_that_will_not_do(tmp_path: Path, spec: str, complaint: str) -> None:
    found = complaints(write(tmp_path, spec))
    assert any(complaint in text for text in found), found


def test_all_of_a_spec_is_looked_at_before_complaining(tmp_path: Path) -> None:
    found = complaints(write(tmp_path, "nam: shop\nstorage: here\n"))
    assert len(found) == 4, found


def test_a_folder_without_a_project_says_how_to_make_one(tmp_path: Path) -> None:
    assert "runnel pipeline init" in complaints(tmp_path)[0]
    assert "no such folder" in complaints(tmp_path / "nothing")[0]


def test_two_specs_are_one_too_many(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "spark-pipeline.yaml").write_text(GOOD)
    assert "remove one" in complaints(tmp_path)[0]


def test_files_that_are_no_definitions_are_named(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "transformations" / "notes.txt").write_text("")
    assert complaints(tmp_path) == [
        "transformations/notes.txt: definitions are .py and .sql files: move this one out of libraries"
    ]


def test_the_starter_is_a_project(tmp_path: Path) -> None:
    make_project(tmp_path / "shop", "broker:9092")
    project = load_project(tmp_path / "shop")
    assert project.name == "shop"
    assert project.local_storage == tmp_path / "shop" / "pipeline-storage"
    assert [project.relative(path) for path in project.definitions()] == [
        "transformations/large_orders.py",
        "transformations/orders.py",
        "transformations/revenue.sql",
    ]
    assert "broker:9092" in (project.folder / "transformations" / "orders.py").read_text()


@pytest.mark.parametrize("name", ["123", "it's", "a:b", "büro"])
def test_the_starter_takes_any_name_that_spark_takes(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    make_project(folder, "broker:9092")
    project = load_project(folder)
    assert (project.name, project.spec.name) == (name, name)
    assert project.local_storage == folder / "pipeline-storage", "escapes would be another folder to Spark"
    compile((folder / "transformations" / "orders.py").read_text(), "orders.py", "exec")
    readme = (folder / "README.md").read_text()
    assert f"run {shlex.quote(name)} " in readme
    (look,) = [shlex.split(line) for line in readme.splitlines() if line.startswith("    python -c ")]
    assert look[:2] == ["python", "-c"]
    (opened,) = [each for each in ast.walk(ast.parse(look[2])) if isinstance(each, ast.Constant) and each.value == name]
    assert opened, "it opens the project"


def test_the_starter_is_not_made_where_spark_would_lose_its_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="Spark loses checkpoints where a path has ' '"):
        make_project(tmp_path / "my shop", "broker:9092")
    assert not (tmp_path / "my shop").exists()


def test_the_readme_of_the_starter_has_commands_that_there_are(tmp_path: Path) -> None:
    make_project(tmp_path / "shop", "broker:9092")
    lines = (tmp_path / "shop" / "README.md").read_text().splitlines()
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("    runnel ")]
    assert len(commands) == 5
    for command in commands:
        parse_only(command)


def parse_only(arguments: list[str]) -> None:
    """Fails on words that the command line does not know."""
    command: click.Command = cli
    context: click.Context | None = None
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context)
        found = command.get_command(context, arguments[0])
        assert found is not None, arguments
        command, arguments = found, arguments[1:]
    command.make_context("test", arguments, parent=context)


def test_a_project_is_found_from_below_as_spark_does(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert load_project(tmp_path / "transformations").folder == tmp_path


def test_projects_under_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a", GOOD)
    write(tmp_path / "teams" / "b", GOOD)
    write(tmp_path / ".hidden" / "c", GOOD)
    assert [path.parent.name for path in find_projects(tmp_path, 3)] == ["a", "b"]
    assert [path.parent.name for path in find_projects(tmp_path, 1)] == ["a"]


def test_folders_of_others_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run as root, whom no folder refuses."""
    write(tmp_path / "a", GOOD)
    (tmp_path / "locked").mkdir()

    def scandir(folder: Path, real: Callable[..., Any] = os.scandir) -> Any:
        if folder == tmp_path / "locked":
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert [path.parent.name for path in find_projects(tmp_path, 3)] == ["a"]


# Moved projects -------------------------------------------------------------------------------------------------


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """A project that has run, and lies elsewhere now."""
    make_project(tmp_path / "shop", "localhost:9092")
    with RunNotes(load_project(tmp_path / "shop")):
        pass
    return (tmp_path / "shop").rename(tmp_path / "moved")


def test_a_project_that_was_moved_is_not_run_from_the_start(moved: Path, tmp_path: Path) -> None:
    (complaint,) = complaints(moved)
    was, now = tmp_path / "shop" / "pipeline-storage", moved / "pipeline-storage"
    assert complaint.startswith(f"spark-pipeline.yml: storage {was} was moved with the project: it is {now} now; ")
    assert not (tmp_path / "shop").exists()
    assert load_project(moved.rename(tmp_path / "shop")).name == "shop", "moved back"


def test_a_storage_that_was_moved_is_not_used(moved: Path, tmp_path: Path) -> None:
    """Spark would make the tables anew where they were."""
    spec = moved / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace(f"{tmp_path}/shop/", f"{moved}/"))
    (complaint,) = complaints(moved)
    was, now = tmp_path / "shop" / "pipeline-storage", moved / "pipeline-storage"
    assert f"storage {now} was moved: it has been {was}; " in complaint
    spec.write_text(spec.read_text().replace("pipeline-storage", "new-storage"))
    assert load_project(moved).local_storage == moved / "new-storage"
