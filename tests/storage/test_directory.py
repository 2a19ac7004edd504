"""The data directory: identity, lock, clean marker, checkpoints, partition folders."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from runnel.storage.checkpoints import decode_properties
from runnel.storage.directory import LOG_STARTS, RECOVERY_POINTS, DataDirectory, Identity
from runnel.storage.errors import DataDirInUse, DataDirInvalid
from runnel.storage.files import Files, MemoryFiles, OsFiles

FRESH = uuid.UUID(int=0xABCDEF)


@pytest.fixture(params=["os", "memory"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> DataDirectory:
    files: Files = OsFiles() if request.param == "os" else MemoryFiles()
    directory = DataDirectory(tmp_path / "data", files)
    directory.lock()
    return directory


def test_a_new_directory_gets_an_identity_and_keeps_it(directory: DataDirectory) -> None:
    assert directory.identity() is None
    identity = directory.claim(None, 4, FRESH)
    assert (identity.node_id, identity.cluster_id) == (4, "AAAAAAAAAAAAAAAAAKvN7w")
    assert directory.claim(None, 4, uuid.uuid4()) == identity
    values = decode_properties(directory.files.read_bytes(directory.path / "meta.properties"))
    assert values["version"] == "1"
    assert set(values) == {"version", "cluster.id", "node.id", "directory.id"}


def test_another_brokers_directory_is_refused(directory: DataDirectory) -> None:
    directory.claim("mine", 1, FRESH)
    with pytest.raises(DataDirInvalid, match="cluster mine, not yours"):
        directory.claim("yours", 1, FRESH)
    with pytest.raises(DataDirInvalid, match="node 1, not 2"):
        directory.claim("mine", 2, FRESH)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 30, b"version=9\nnode.id=1\ncluster.id=a\n", b"version=1\nnode.id=x\n"]
)
def test_an_unreadable_identity_is_an_error_not_a_new_one(directory: DataDirectory, content: bytes) -> None:
    directory.files.write_bytes(directory.path / "meta.properties", content)
    with pytest.raises(DataDirInvalid):
        directory.claim(None, 1, FRESH)


def test_kafkas_older_identity_is_read(directory: DataDirectory) -> None:
    directory.files.write_bytes(directory.path / "meta.properties", b"#\nversion=0\nbroker.id=3\ncluster.id=abc\n")
    assert directory.identity() == Identity("abc", 3, "")


def test_the_lock_is_held_once(directory: DataDirectory) -> None:
    other = DataDirectory(directory.path, directory.files)
    with pytest.raises(DataDirInUse, match="is in use by process"):
        other.lock()
    directory.unlock()
    other.lock()
    other.unlock()
    other.unlock()


def test_the_clean_marker_vouches_for_one_start(directory: DataDirectory) -> None:
    assert not directory.take_clean_marker()
    directory.write_clean_marker()
    assert directory.files.read_bytes(directory.path / ".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    assert directory.take_clean_marker()
    assert not directory.take_clean_marker()


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS])
def test_checkpoints_come_back_and_damage_reads_as_empty(directory: DataDirectory, name: str) -> None:
    assert directory.read_checkpoint(name) == {}
    offsets = {("orders", 0): 5, ("orders-eu", 12): 7}
    directory.write_checkpoint(name, offsets)
    assert directory.read_checkpoint(name) == offsets
    directory.files.write_bytes(directory.path / name, b"0\n2\norders 0 5\n")
    assert directory.read_checkpoint(name) == {}


def test_partition_folders_are_told_from_everything_else(directory: DataDirectory) -> None:
    for name in ("orders-0", "orders-eu-11", "a.b_c-2", "orders", "-0", "orders-0.tmp", "x-0.0123-delete"):
        directory.files.make_directory(directory.path / name)
    found = [(folder.topic, folder.partition) for folder in directory.partitions()]
    assert found == [("a.b_c", 2), ("orders", 0), ("orders-eu", 11)]
    assert directory.partition_path("orders-eu", 11) == directory.path / "orders-eu-11"


def test_a_deleted_partition_is_renamed_then_removed(directory: DataDirectory) -> None:
    path = directory.partition_path("orders", 0)
    directory.files.make_directory(path)
    directory.files.write_bytes(path / f"{0:020d}.log", b"x")
    gone = directory.mark_deleted("orders", 0, FRESH)
    assert gone is not None
    assert gone.name == f"orders-0.{FRESH.hex}-delete"
    directory.sync()
    assert (directory.partitions(), directory.deleted()) == ([], [gone])
    assert directory.mark_deleted("orders", 0, FRESH) is None
    directory.remove(gone)
    directory.remove(gone)
    assert directory.deleted() == []


def test_a_long_topic_name_still_fits_when_deleted(directory: DataDirectory) -> None:
    topic = "t" * 249
    directory.files.make_directory(directory.partition_path(topic, 12345))
    gone = directory.mark_deleted(topic, 12345, FRESH)
    assert gone is not None
    assert len(gone.name) <= 255
    assert directory.deleted() == [gone]
