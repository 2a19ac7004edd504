"""Kafka's small text files, to the byte; and damaged ones, which read as missing."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.storage.checkpoints import (
    decode_first_segment,
    decode_leader_epochs,
    decode_offset_checkpoint,
    decode_partition_metadata,
    decode_properties,
    decode_topic_id,
    encode_first_segment,
    encode_leader_epochs,
    encode_offset_checkpoint,
    encode_partition_metadata,
    encode_properties,
    encode_topic_id,
)
from runnel.storage.epochs import LeaderEpochs
from runnel.storage.files import MemoryFiles

TOPIC_ID = uuid.UUID("4f8a5a2e-0001-4b7e-9d3c-0123456789ab")


def test_partition_metadata_is_kafkas() -> None:
    data = encode_partition_metadata(TOPIC_ID)
    assert data == b"version: 0\ntopic_id: T4paLgABS36dPAEjRWeJqw"
    assert decode_partition_metadata(data) == TOPIC_ID
    assert decode_topic_id(encode_topic_id(TOPIC_ID)) == TOPIC_ID


@pytest.mark.parametrize("data", [b"", b"\0" * 40, b"version: 0\n", b"version: 0\ntopic_id: !", b"topic_id: AAAA"])
def test_damaged_partition_metadata_reads_as_missing(data: bytes) -> None:
    assert decode_partition_metadata(data) is None


def test_offset_checkpoints_are_kafkas() -> None:
    offsets = {("orders", 0): 12, ("a.b-c_d", 11): 0}
    data = encode_offset_checkpoint(offsets)
    assert data == b"0\n2\norders 0 12\na.b-c_d 11 0\n"
    assert decode_offset_checkpoint(data) == offsets
    assert decode_offset_checkpoint(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n2\norders 0 12\n", b"0\n1\norders 0\n", b"0\n1\norders x 1\n", b"\0\0\0", b"0\nx\n"]
)
def test_a_damaged_offset_checkpoint_reads_as_missing(data: bytes) -> None:
    assert decode_offset_checkpoint(data) is None


def test_every_torn_prefix_of_a_checkpoint_is_noticed_or_harmless() -> None:
    data = encode_offset_checkpoint({("orders", 0): 12, ("orders", 1): 3456})
    for length in range(len(data)):
        found = decode_offset_checkpoint(data[:length])
        # The one thing that cannot be seen is a number cut short: files are replaced whole, so this never happens.
        assert found is None or found[("orders", 1)] in (3, 34, 345, 3456)


def test_leader_epochs_are_kafkas() -> None:
    entries = [(0, 0), (3, 100), (4, 100)]
    data = encode_leader_epochs(entries)
    assert data == b"0\n3\n0 0\n3 100\n4 100\n"
    assert decode_leader_epochs(data) == entries


@pytest.mark.parametrize("data", [b"0\n2\n3 10\n2 20\n", b"0\n2\n2 20\n3 10\n", b"0\n1\nx 1\n", b""])
def test_damaged_leader_epochs_read_as_missing(data: bytes) -> None:
    assert decode_leader_epochs(data) is None


def test_the_first_segment_checkpoint() -> None:
    assert decode_first_segment(encode_first_segment(77)) == 77
    for data in (b"", b"0\n1\nx\n", b"0\n0\n", b"0\n1\n-1\n"):
        assert decode_first_segment(data) is None


def test_properties_keep_keys_and_ignore_comments() -> None:
    assert decode_properties(b"#Mon\n! x=y\ncluster.id=a=b\n node.id = 1 \n\n") == {"cluster.id": "a=b", "node.id": "1"}
    assert decode_properties(encode_properties({"a": "1", "b": ""})) == {"a": "1", "b": ""}


def make_epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs("", MemoryFiles())
    for epoch, start in entries:
        epochs.note(epoch, start)
    return epochs


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(0, (0, 5)), (1, (0, 5)), (2, (2, 9)), (3, (2, 9)), (4, (4, 20)), (5, (-1, -1)), (-1, (-1, -1))],
)
def test_the_end_of_an_epoch_is_kafkas_answer(epoch: int, answer: tuple[int, int]) -> None:
    assert make_epochs((0, 0), (2, 5), (4, 9)).end_offset_for(epoch, 20) == answer


def test_an_epoch_below_all_known_ends_where_the_first_starts() -> None:
    assert make_epochs((3, 7)).end_offset_for(1, 20) == (1, 7)
    assert make_epochs().end_offset_for(1, 20) == (-1, -1)


def test_epochs_follow_the_ends_of_the_log() -> None:
    epochs = make_epochs((0, 0), (2, 5), (4, 9))
    epochs.truncate_start(6)
    assert epochs.entries == [(2, 6), (4, 9)]
    epochs.truncate_end(9)
    assert (epochs.entries, epochs.latest) == ([(2, 6)], 2)
    epochs.truncate_end(0)
    assert (epochs.entries, epochs.latest) == ([], -1)


def test_an_epoch_without_batches_is_replaced() -> None:
    assert make_epochs((1, 0), (2, 5), (3, 5)).entries == [(1, 0), (3, 5)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50))))
def test_what_was_written_is_read_again(noted: list[tuple[int, int]]) -> None:
    files = MemoryFiles()
    epochs = LeaderEpochs("", files)
    for epoch, start in sorted(noted, key=lambda entry: entry[1]):
        epochs.note(epoch, start)
    change = epochs.take_change()
    if change is not None:
        files.write_atomic(*change)
        again = LeaderEpochs("", files)
        assert again.load()
        assert (again.entries, again.latest) == (epochs.entries, epochs.latest)
    assert epochs.take_change() is None
