"""The two file layers mean the same; what only the operating system has is tested on it alone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.storage.errors import DataDirInUse
from runnel.storage.files import Files, MemoryFiles, OsFiles


@pytest.fixture(params=["os", "memory"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, Path]:
    if request.param == "os":
        return OsFiles(), tmp_path
    files = MemoryFiles()
    files.make_directory(tmp_path)
    return files, tmp_path


def test_appends_go_to_the_end_and_reads_stop_there(tree: tuple[Files, Path]) -> None:
    files, root = tree
    file = files.open(root / "a", create=True)
    file.append((b"abc",))
    file.append((b"de", bytearray(b"f"), memoryview(b"gh"), b""))
    assert file.read(0, 100) == b"abcdefgh"
    assert file.read(2, 3) == b"cde"
    assert file.read(8, 3) == b""
    assert (file.size(), files.size(root / "a")) == (8, 8)
    assert type(file.read(0, 2)) is bytes


def test_two_opens_see_the_same_bytes(tree: tuple[Files, Path]) -> None:
    files, root = tree
    first = files.open(root / "a", create=True)
    second = files.open(root / "a")
    first.append((b"1",))
    second.append((b"2",))
    assert first.read(0, 9) == second.read(0, 9) == files.read_bytes(root / "a") == b"12"


def test_truncate_cuts_and_appends_follow(tree: tuple[Files, Path]) -> None:
    files, root = tree
    file = files.open(root / "a", create=True)
    file.append((b"abcdef",))
    file.truncate(2)
    file.append((b"X",))
    assert file.read(0, 9) == b"abX"
    file.truncate(5)
    assert file.read(0, 9) == b"abX\0\0"


def test_a_removed_file_is_still_readable_by_its_holder(tree: tuple[Files, Path]) -> None:
    files, root = tree
    file = files.open(root / "a", create=True)
    file.append((b"abc",))
    files.remove(root / "a")
    assert not files.exists(root / "a")
    assert file.read(0, 3) == b"abc"
    with pytest.raises(FileNotFoundError):
        files.open(root / "a")
    with pytest.raises(FileNotFoundError):
        files.remove(root / "a")


def test_rename_replaces_and_moves_folders(tree: tuple[Files, Path]) -> None:
    files, root = tree
    files.write_bytes(root / "a", b"new")
    files.write_bytes(root / "b", b"old")
    files.rename(root / "a", root / "b")
    assert files.read_bytes(root / "b") == b"new"
    assert files.make_directory(root / "folder")
    assert not files.make_directory(root / "folder")
    files.write_bytes(root / "folder" / "x", b"1")
    files.rename(root / "folder", root / "moved")
    assert sorted(files.list(root)) == ["b", "moved"]
    assert files.read_bytes(root / "moved" / "x") == b"1"
    files.remove_tree(root / "moved")
    assert files.list(root) == ["b"]
    with pytest.raises(FileNotFoundError):
        files.list(root / "moved")


def test_deep_folders_are_made_at_once(tree: tuple[Files, Path]) -> None:
    files, root = tree
    assert files.make_directory(root / "a" / "b" / "c")
    assert files.list(root / "a" / "b") == ["c"]
    files.remove_tree(root / "a")
    assert files.list(root) == []


def test_write_atomic_leaves_no_temporary_file(tree: tuple[Files, Path]) -> None:
    files, root = tree
    files.write_atomic(root / "a", b"1")
    files.write_atomic(root / "a", b"22", sync=False)
    assert (files.read_bytes(root / "a"), files.list(root)) == (b"22", ["a"])


def test_a_second_lock_names_the_holder(tree: tuple[Files, Path]) -> None:
    files, root = tree
    lock = files.lock(root)
    with pytest.raises(DataDirInUse, match=str(os.getpid())):
        files.lock(root)
    lock.release()
    files.lock(root).release()


def test_another_process_holds_the_lock(tmp_path: Path) -> None:
    program = (
        "import sys; from runnel.storage.files import OsFiles; lock = OsFiles().lock(sys.argv[1]);"
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataDirInUse) as refused:
            OsFiles().lock(tmp_path)
        assert refused.value.process_id == holder.pid
        holder.communicate()
    OsFiles().lock(tmp_path).release()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFiles().open(tmp_path / "a", create=True)
    real_write, real_writev = os.write, os.writev
    monkeypatch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, bytes(data)[:3]))
    monkeypatch.setattr(os, "writev", lambda descriptor, parts: real_writev(descriptor, [bytes(parts[0])[:2]]))
    file.append((b"abcdefgh",))
    file.append((b"12345", b"", b"678"))
    monkeypatch.undo()
    assert file.read(0, 99) == b"abcdefgh12345678"


def test_what_was_just_written_is_resident(tmp_path: Path) -> None:
    file = OsFiles().open(tmp_path / "a", create=True)
    file.append((b"x" * 10_000,))
    assert file.resident(0, 10_000)
    assert file.resident(0, 0)


def test_the_descriptor_goes_with_the_last_reference(tmp_path: Path) -> None:
    file = OsFiles().open(tmp_path / "a", create=True)
    descriptor = file._descriptor
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError) as closed:
        os.fstat(descriptor)
    assert closed.value.errno == errno.EBADF


def test_modified_ms_is_the_time_of_the_last_write(tmp_path: Path) -> None:
    OsFiles().write_bytes(tmp_path / "a", b"1")
    os.utime(tmp_path / "a", ns=(0, 1234 * 1_000_000))
    assert OsFiles().modified_ms(tmp_path / "a") == 1234
