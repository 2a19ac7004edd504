"""The bounded cache of open files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from runnel.storage.files import OsFile, OsFiles, StrPath
from runnel.storage.handles import Handle, HandleCache
from runnel.testing.faults import FaultyFiles


def make_handles(cache: HandleCache, root: Path, count: int) -> list[Handle]:
    handles = [cache.handle(OsFiles(), f"{root}/{number}") for number in range(count)]
    for number, handle in enumerate(handles):
        handle.create().append((str(number).encode(),))
    return handles


def open_descriptors(root: Path) -> int:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum(os.path.realpath(link).startswith(str(root)) for link in links)


def test_no_more_files_are_open_than_the_limit(tmp_path: Path) -> None:
    cache = HandleCache(3)
    handles = make_handles(cache, tmp_path, 10)
    assert (len(cache), open_descriptors(tmp_path)) == (3, 3)
    for number, handle in enumerate(handles):
        assert handle.get().read(0, 9) == str(number).encode()
    assert open_descriptors(tmp_path) == 3


def test_what_is_in_use_stays_open(tmp_path: Path) -> None:
    cache = HandleCache(3)
    handles = make_handles(cache, tmp_path, 3)
    for handle in handles:
        handle.recent = False
    for _ in range(5):
        kept = handles[0].get()
        extra = cache.handle(OsFiles(), f"{tmp_path}/extra")
        extra.create()
        extra.recent = False
        assert handles[0].file is kept


def test_dirty_files_are_closed_last(tmp_path: Path) -> None:
    cache = HandleCache(3)
    handles = make_handles(cache, tmp_path, 3)
    handles[0].dirty = True
    for number in range(20):
        cache.handle(OsFiles(), f"{tmp_path}/extra{number}").create()
    assert handles[0].file is not None
    assert handles[1].file is handles[2].file is None


def test_all_dirty_still_keeps_the_limit(tmp_path: Path) -> None:
    cache = HandleCache(4)
    for number in range(50):
        handle = cache.handle(OsFiles(), f"{tmp_path}/{number}")
        handle.create()
        handle.dirty = True
    assert (len(cache), open_descriptors(tmp_path)) == (4, 4)


def test_an_evicted_file_lives_as_long_as_its_reader(tmp_path: Path) -> None:
    cache = HandleCache(1)
    first, second = make_handles(cache, tmp_path, 2)
    reader = first.get()
    second.get()
    assert first.file is None
    os.unlink(first.path)
    assert reader.read(0, 9) == b"0"
    del reader
    assert open_descriptors(tmp_path) == 1


def test_release_closes(tmp_path: Path) -> None:
    cache = HandleCache(5)
    (handle,) = make_handles(cache, tmp_path, 1)
    handle.release()
    handle.release()
    assert (len(cache), open_descriptors(tmp_path)) == (0, 0)


def test_room_is_made_when_the_process_runs_out_of_descriptors(tmp_path: Path) -> None:
    cache = HandleCache(10)
    make_handles(cache, tmp_path, 4)
    files = FaultyFiles(OsFiles())
    files.fail("open", error=errno.EMFILE)
    cache.handle(files, f"{tmp_path}/more").create()
    assert open_descriptors(tmp_path) == 3


class RenamedUnderWay(OsFiles):
    """Compaction renames a file twice, each time just before it is opened under the name that it had."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.handle: Handle | None = None

    def open(self, path: StrPath, *, create: bool = False) -> OsFile:
        if self.handle is not None and not create and self.names:
            self.handle.rename(self.names.pop(0))
        return super().open(path, create=create)


def test_a_file_is_found_however_often_it_is_renamed_under_way(tmp_path: Path) -> None:
    files = RenamedUnderWay([f"{tmp_path}/0.swap", f"{tmp_path}/0"])
    handle = HandleCache().handle(files, f"{tmp_path}/0.cleaned")
    handle.create().append((b"new",))
    handle.release()
    files.handle = handle
    assert handle.get().read(0, 9) == b"new"
    assert os.listdir(tmp_path) == ["0"]
