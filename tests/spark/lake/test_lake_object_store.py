"""Lake tables in an object store, on a real S3 server: what the options say reaches whoever writes files.

The server's keys are in the options and nowhere else, so that a writer that does not look there cannot write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.lake.test_lake_tables import HOW, MONDAY, commit, content, rows

from harness.s3 import BUCKET, S3, S3Unavailable, running_s3
from runnel.spark.lake.options import TABLE_FORMATS, LakeOptions, parse_lake_options
from runnel.spark.lake.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow  # Go builds the server, the first time


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    try:
        with running_s3(tmp_path_factory.mktemp("s3")) as server:
            yield server
    except S3Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def no_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def settings_of(s3: S3, table_format: str, folder: Path) -> Mapping[str, str]:
    if table_format == "iceberg":
        return {
            "catalog.type": "sql",
            "catalog.uri": f"sqlite:///{folder}/catalog.db",
            "catalog.warehouse": f"s3://{BUCKET}/iceberg-{folder.name}",
            "catalog.s3.endpoint": s3.endpoint,
            "catalog.s3.access-key-id": s3.access_key,
            "catalog.s3.secret-access-key": s3.secret_key,
            "catalog.s3.region": s3.region,
        }
    return {
        "storage.aws_endpoint_url": s3.endpoint,
        "storage.aws_allow_http": "true",
        "storage.aws_access_key_id": s3.access_key,
        "storage.aws_secret_access_key": s3.secret_key,
        "storage.aws_region": s3.region,
    }


def options_at(s3: S3, table_format: str, folder: Path) -> LakeOptions:
    place = {"path": f"s3://{BUCKET}/{table_format}-{folder.name}/orders", "tableFormat": table_format, "appId": "app"}
    return parse_lake_options({**place, **settings_of(s3, table_format, folder)})


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_batch_is_in_the_table_once(s3: S3, tmp_path: Path, table_format: str) -> None:
    options = options_at(s3, table_format, tmp_path)
    first = rows(("a", b"1", 0, MONDAY), ("b", b"2", 1, MONDAY))
    assert commit(options, 0, first) is True
    assert commit(options, 0, first) is False
    assert commit(options, 1, rows(("c", b"3", 2, MONDAY))) is True
    assert [row["offset"] for row in content(options)] == [0, 1, 2]
    table = open_table(options.destination)
    assert (table.exists(), table.last_batch("app"), len(table.file_sizes())) == (True, 1, 2)
    assert table.expire_rows("2026-11-17") == 3
    assert content(options) == []


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_upserts_compaction_and_expiry(s3: S3, tmp_path: Path, table_format: str) -> None:
    options = options_at(s3, table_format, tmp_path)
    for number in range(3):
        key = f"key-{number}"
        commit(options, number, rows((key, b"old", number, MONDAY), ("same", b"%d" % number, number, MONDAY)), how=HOW)
    assert [(row["key"], row["value"]) for row in content(options)] == [
        ("key-0", b"old"),
        ("key-1", b"old"),
        ("key-2", b"old"),
        ("same", b"2"),
    ]
    table = open_table(options.destination)
    assert table.compact(128 << 20).files_after == 1
    assert table.remove_old_files(1) == 0, "nothing is old yet"
    assert len(content(options)) == 4


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_executors_write_there(spark: SparkSession, s3: S3, tmp_path: Path, table_format: str) -> None:
    options = options_at(s3, table_format, tmp_path)
    frame = spark.range(100, numPartitions=2).selectExpr("id offset", "timestamp '2026-11-16' timestamp")
    writer = frame.write.format("runnel-lake").option("tableFormat", table_format).mode("append")
    writer.options(**settings_of(s3, table_format, tmp_path)).save(options.destination.path)
    assert [row["offset"] for row in content(options, ("offset",))] == list(range(100))
