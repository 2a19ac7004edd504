"""Walking batches: every kind of damage is found at the batch that has it."""

from __future__ import annotations

import pytest

from runnel.storage.files import File, MemoryFiles
from runnel.storage.scan import Scanner, find_intact_batch
from runnel.wire.batch import assign
from storage.builders import make_batch


def make_file(batches: list[bytearray], base_offset: int = 0) -> tuple[File, list[int]]:
    file = MemoryFiles().open("/0.log", create=True)
    positions, offset = [], base_offset
    for batch in batches:
        assign(batch, 0, offset, 0)
        positions.append(file.size())
        file.append((batch,))
        offset += int.from_bytes(batch[23:27], "big") + 1
    return file, positions


def three() -> tuple[File, list[int]]:
    return make_file([make_batch(2), make_batch(1, value=b"y" * 300), make_batch(3)])


def flip(file: File, position: int) -> File:
    data = bytearray(file.read(0, file.size()))
    data[position] ^= 0x10
    changed = MemoryFiles().open("/1.log", create=True)
    changed.append((data,))
    return changed


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("chunk_bytes", [61, 70, 100, 1 << 20])
def test_good_batches_are_walked_to_the_end(verify: bool, chunk_bytes: int) -> None:
    file, positions = three()
    scanner = Scanner(file, 0, file.size(), 0, verify=verify, chunk_bytes=chunk_bytes)
    found = list(scanner)
    assert [position for position, _ in found] == positions
    assert [header.base_offset for _, header in found] == [0, 2, 3]
    assert (scanner.problem, scanner.position, scanner.expected_offset) == (None, file.size(), 6)


def test_a_flip_of_any_byte_is_found_in_its_batch() -> None:
    file, positions = three()
    end = file.size()
    ends = [*positions[1:], end]
    for position in range(end):
        scanner = Scanner(flip(file, position), 0, end, 0, verify=True, gaps_below=0)
        found = list(scanner)
        batch = next(number for number, stop in enumerate(ends) if position < stop)
        if 12 <= position - positions[batch] < 16:
            assert scanner.problem is None, "the leader epoch lies outside the checksum"
            continue
        assert scanner.problem is not None
        assert (scanner.position, len(found)) == (positions[batch], batch)


def test_a_wrong_offset_is_found_even_where_gaps_are_legal() -> None:
    file, positions = three()
    scanner = Scanner(flip(file, positions[1] + 7), 0, file.size(), 0, verify=True)
    assert len(list(scanner)) == 1
    assert scanner.problem == "offset 18 leads to 3"


def test_gaps_are_legal_only_where_compaction_makes_them() -> None:
    file, _ = make_file([make_batch()])
    other = make_batch()
    assign(other, 0, 10, 0)
    file.append((other,))
    assert len(list(Scanner(file, 0, file.size(), 0, verify=True))) == 2
    strict = Scanner(file, 0, file.size(), 0, verify=True, gaps_below=0)
    assert len(list(strict)) == 1
    assert strict.problem == "offset 10 stands where 1 was expected"


def test_every_torn_tail_ends_at_the_last_whole_batch() -> None:
    file, positions = three()
    ends = [*positions, file.size()]
    for size in range(file.size()):
        scanner = Scanner(file, 0, size, 0, verify=True)
        list(scanner)
        assert scanner.position == max(end for end in ends if end <= size)
        assert (scanner.problem is None) == (size in ends)


def test_a_file_shorter_than_promised_is_a_problem() -> None:
    file, _ = three()
    scanner = Scanner(file, 0, file.size() + 10, 0, verify=True)
    list(scanner)
    assert scanner.problem == "the file is shorter than expected"


@pytest.mark.parametrize("base_offset", [0, 1 << 40])
def test_an_intact_batch_is_found_behind_damage(base_offset: int) -> None:
    batches = [make_batch(value=bytes(range(256)) * number) for number in (1, 9, 3)]
    file, positions = make_file(batches, base_offset)
    end = file.size()
    assert find_intact_batch(file, 1, end, base_offset) == positions[1]
    assert find_intact_batch(file, positions[1] + 1, end, base_offset) == positions[2]
    assert find_intact_batch(file, positions[2] + 1, end, base_offset) is None
    assert find_intact_batch(file, positions[1] + 1, end - 1, base_offset) is None
    assert find_intact_batch(file, 1, end, base_offset + 2) == positions[2]


def test_an_intact_batch_is_found_across_the_edge_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    file, positions = three()
    for chunk_bytes in range(62, 200):
        monkeypatch.setattr("runnel.storage.scan.INTACT_CHUNK_BYTES", chunk_bytes)
        assert find_intact_batch(file, positions[1] + 1, file.size(), 2) == positions[2]
