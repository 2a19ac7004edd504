"""What is wrong with a spec, found without Spark; and where projects are."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        (GOOD + "configuration: [a]\n", "configuration"),
        (GOOD + "configuration:\n  spark.sql.shuffle.partitions: 2\n", "spark.sql.shuffle.partitions"),
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


def test_a_project_is_found_from_below_as_spark_does(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert load_project(tmp_path / "transformations").folder == tmp_path


def test_projects_under_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a", GOOD)
    write(tmp_path / "teams" / "b", GOOD)
    write(tmp_path / ".hidden" / "c", GOOD)
    assert [path.parent.name for path in find_projects(tmp_path, 3)] == ["a", "b"]
    assert [path.parent.name for path in find_projects(tmp_path, 1)] == ["a"]
