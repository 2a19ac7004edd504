"""`runnel log verify`: damaged data directories are told from whole ones, and mended so that a broker serves them."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.data_dirs import (
    RECORDS,
    batch_positions,
    fill,
    fingerprint,
    flip,
    run_command,
    segments,
    value,
    write_data_dir,
)
from harness.process import BrokerProcess
from runnel.cli.main import cli
from runnel.wire.batch import encode_batch, read_header

SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
FLIPS = 25


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("verify"))


@pytest.fixture
def data_dir(written: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(written, tmp_path / "data"))


def verify(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["log", "verify", *map(str, arguments)])


def report(*arguments: str | Path) -> Any:
    result = verify(*arguments, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == (0 if document["ok"] else 1), result.stderr
    return document


def statuses(*arguments: str | Path) -> list[str]:
    return [finding["status"] for finding in report(*arguments)["findings"]]


def repaired(data_dir: Path) -> Any:
    """Mend; then there is nothing left to complain about but notes."""
    document = report(data_dir, "--repair", "--execute")
    assert {finding["status"] for finding in document["findings"]} <= {"note"}, document
    assert report(data_dir)["warnings"] == 0
    return document


def served(data_dir: Path, end: int) -> None:
    """A broker starts on it and has every record below `end`, and then goes on there."""
    broker = BrokerProcess(data_dir.parent)
    broker.data_dir = data_dir
    broker.start()
    try:
        read = run_command(broker.address, "consume", "orders", "-e", "-q").stdout.splitlines()
        assert len(read) == end
        assert read == [value(number) for number in range(end)]
        done = run_command(broker.address, "produce", "orders", "-v", "next", "--json")
        assert json.loads(done.stdout)["partitions"][0]["base_offset"] == end
    finally:
        assert broker.terminate() == 0


# Whole directories ----------------------------------------------------------------------------------------


def test_a_whole_directory(written: Path) -> None:
    before = fingerprint(written)
    result = verify(written)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("checked 3 partitions, ")
    assert result.stdout.endswith(": no damage\n")
    document = report(written, "--deep")
    assert (document["ok"], document["damages"], document["warnings"], document["findings"]) == (True, 0, 0, [])
    orders = next(row for row in document["partitions"] if row["topic"] == "orders")
    assert (orders["partition"], orders["records"], orders["start_offset"], orders["end_offset"]) == (
        0,
        RECORDS,
        0,
        RECORDS,
    )
    assert verify(written, "-v", "-t", "orders").stdout.splitlines()[0].startswith("orders-0: ")
    assert [row["topic"] for row in report(written / "orders-0")["partitions"]] == ["orders"]
    assert "there is nothing to mend" in verify(written, "--repair").stderr
    assert fingerprint(written) == before


def test_beside_a_running_broker(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    fill(broker.address)
    result = verify(broker.data_dir)
    assert result.exit_code == 0
    assert f"a broker is using {broker.data_dir}" in result.stderr
    flip(segments(broker.data_dir)[0], 5000)
    refused = verify(broker.data_dir, "--repair", "--execute")
    assert refused.exit_code == 1
    assert "stop it first; nothing was changed" in refused.stderr
    broker.kill()
    assert report(broker.data_dir)["damages"] == 1


@pytest.mark.parametrize(
    ("arguments", "message", "exit_code"),
    [
        ((), "Missing argument 'PATH...'", 2),
        (("/no/such/place",), "/no/such/place does not exist", 1),
        (("{data}", "--execute"), "--execute goes with --repair", 2),
        (("{data}", "--repair", "--execute", "--dry-run"), "--execute goes with --repair", 2),
        (("{data}", "-t", "nothing"), "has no partition of nothing", 1),
        (("{file}",), "is a file: name its folder", 1),
    ],
    ids=str,
)
def test_wrong_usage(written: Path, arguments: tuple[str, ...], message: str, exit_code: int) -> None:
    result = verify(*(each.format(data=written, file=segments(written)[0]) for each in arguments))
    assert result.exit_code == exit_code
    assert message in result.stderr


# Damaged logs ---------------------------------------------------------------------------------------------


def test_a_flipped_bit(data_dir: Path) -> None:
    path = segments(data_dir)[0]
    positions = batch_positions(path)
    header = read_header(path.read_bytes(), positions[20])
    flip(path, positions[20] + 200)
    before = fingerprint(data_dir)
    (finding,) = report(data_dir)["findings"]
    assert (finding["status"], finding["path"]) == ("damage", str(path))
    assert (finding["position"], finding["offset"]) == (positions[20], header.base_offset)
    lost = f"offsets {header.base_offset} to {header.last_offset} cannot be read"
    assert finding["message"].startswith(f"damaged at position {positions[20]}: the checksum is wrong; {lost}")
    assert f"can go on from {header.next_offset}" in finding["advice"]

    planned = verify(data_dir, "--repair")
    assert planned.exit_code == 1
    assert f"would end orders-0 at offset {header.base_offset}: " in planned.stdout
    assert "nothing was changed (add --execute to do it)" in planned.stderr
    assert fingerprint(data_dir) == before

    done = verify(data_dir, "--repair", "--execute")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "checked again: no damage"
    kept = list((data_dir / "orders-0").glob("*.corrupt"))
    assert len(kept) == len(batch_segments_after(kept, path))
    served(data_dir, header.base_offset)


def batch_segments_after(kept: list[Path], first: Path) -> list[Path]:
    """Nothing is thrown away: what was cut off lies in one file per segment, the damaged one's from its position on."""
    assert any(path.name.startswith(f"{first.name}.") for path in kept)
    return [path for path in kept if path.stat().st_size > 0]


def test_every_flipped_bit_of_a_log_is_found(written: Path, tmp_path: Path) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    for number in range(FLIPS):
        data_dir = Path(shutil.copytree(written, tmp_path / str(number)))
        path = chance.choice([*segments(data_dir), *(data_dir / "__cluster_metadata-0").glob("*.log")])
        flip(path, chance.randrange(path.stat().st_size), 1 << chance.randrange(8))
        assert statuses(data_dir), f"nothing found in {path}"
        done = report(data_dir, "--repair", "--execute")
        assert done["ok"], done["findings"]
        assert path.parent.name != "orders-0" or done["warnings"] == 0, done["findings"]
        shutil.rmtree(data_dir)


def test_a_segment_that_is_missing(data_dir: Path) -> None:
    first, second, third, *_ = segments(data_dir)
    start, end = int(second.stem), int(third.stem)
    second.unlink()
    (finding,) = report(data_dir)["findings"]
    assert (finding["status"], finding["message"]) == ("damage", f"offsets {start} to {end - 1} are missing")
    repaired(data_dir)
    assert not third.exists()
    assert (first.with_name(f"{third.name}.corrupt")).exists()
    served(data_dir, start)


def test_a_log_that_lost_its_end(data_dir: Path) -> None:
    """After a clean stop every byte was on disk: what is missing is lost, and not an unfinished write."""
    path = segments(data_dir)[-1]
    positions = batch_positions(path)
    os.truncate(path, positions[-1])
    findings = report(data_dir)["findings"]
    damage = next(finding for finding in findings if finding["status"] == "damage")
    assert f"but {RECORDS} was known to be durable" in damage["message"]


def test_an_unfinished_write_is_no_damage(data_dir: Path) -> None:
    """What a killed broker leaves behind what it has acknowledged: a broker cuts it off, and so does --repair."""
    (data_dir / ".kafka_cleanshutdown").unlink()
    path = segments(data_dir)[-1]
    size = path.stat().st_size
    with path.open("ab") as log:
        log.write(bytes(encode_batch([(0, None, b"torn", ())], base_offset=RECORDS))[:-7])
    document = report(data_dir)
    assert document["ok"]
    (finding,) = [finding for finding in document["findings"] if finding["path"] == str(path)]
    assert finding["status"] == "warning"
    assert "an unfinished write" in finding["message"]
    repaired(data_dir)
    assert path.stat().st_size == size


def test_records_that_do_not_parse_though_their_checksum_is_right(data_dir: Path) -> None:
    path = segments(data_dir)[-1]
    batch = encode_batch([(0, None, b"v", ())], base_offset=RECORDS)
    whole = encode_batch([(0, None, b"\xff" * 8, ())], base_offset=RECORDS, compression=1)
    assert len(batch) < len(whole)
    broken = bytearray(whole)
    broken[22] = 0  # says "not compressed": the records are gzip bytes
    from crc32c import crc32c

    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    with path.open("ab") as log:
        log.write(broken)
    assert "damage" not in statuses(data_dir)
    findings = [finding for finding in report(data_dir, "--deep")["findings"] if finding["status"] == "damage"]
    assert [finding["offset"] for finding in findings] == [RECORDS]
    assert "the records do not parse" in findings[0]["message"]


# Files that a broker makes again ---------------------------------------------------------------------------


SMALL_FILES = [
    "orders-0/leader-epoch-checkpoint",
    "orders-0/partition.metadata",
    "orders-0/{end:020d}.snapshot",
    "orders-0/{end:020d}.producers",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
]


@pytest.mark.parametrize("junk", ["cut", "noise", "zeros"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_wrong_indexes(data_dir: Path, suffix: str, junk: str) -> None:
    path = segments(data_dir)[1].with_suffix(suffix)
    data = path.read_bytes()
    noise = random.Random(7).randbytes(len(data))
    path.write_bytes({"cut": data[:-3], "noise": noise, "zeros": data[:-24] + bytes(24)}[junk])
    document = report(data_dir)
    assert (document["ok"], document["warnings"]) == (True, 1)
    assert document["findings"][0]["path"] == str(path)
    repaired(data_dir)
    assert not path.exists()


@pytest.mark.parametrize("name", SMALL_FILES)
def test_wrong_small_files(data_dir: Path, name: str) -> None:
    path = data_dir / name.format(end=RECORDS)
    path.write_bytes(b"\xff not what it was \x00")
    document = report(data_dir)
    assert (document["ok"], [finding["path"] for finding in document["findings"]]) == (True, [str(path)])
    repaired(data_dir)


def test_a_broker_makes_again_what_a_repair_removed(data_dir: Path) -> None:
    for name in SMALL_FILES:
        (data_dir / name.format(end=RECORDS)).write_bytes(b"junk")
    for path in segments(data_dir):
        path.with_suffix(".index").write_bytes(b"junk")
        path.with_suffix(".timeindex").write_bytes(b"junk")
    assert report(data_dir)["warnings"] == len(SMALL_FILES) + 2 * len(segments(data_dir))
    repaired(data_dir)
    served(data_dir, RECORDS)
    assert statuses(data_dir) == []


def test_an_identity_that_cannot_be_read(data_dir: Path) -> None:
    (data_dir / "meta.properties").write_bytes(b"\x00nonsense")
    (finding,) = report(data_dir)["findings"]
    assert (finding["status"], finding["path"]) == ("damage", str(data_dir / "meta.properties"))
    assert verify(data_dir, "--repair", "--execute").exit_code == 1


def test_a_folder_that_no_topic_owns(data_dir: Path) -> None:
    shutil.copytree(data_dir / "orders-0", data_dir / "payments-0")
    document = report(data_dir)
    assert document["ok"]
    assert {finding["message"] for finding in document["findings"]} == {
        "the cluster's metadata knows no topic of this name"
    }


def test_a_compaction_that_was_cut_short(data_dir: Path) -> None:
    """`.log.swap` stands for the segments that it replaces; `.cleaned` for nothing."""
    first, second, *_ = segments(data_dir)
    swap = first.with_name(f"{first.name}.swap")
    swap.write_bytes(first.read_bytes() + second.read_bytes())
    first.unlink()
    second.with_name(f"{second.name}.cleaned").write_bytes(b"half")
    document = report(data_dir)
    assert document["ok"]
    assert {finding["status"] for finding in document["findings"]} == {"note"}
    orders = next(row for row in document["partitions"] if row["topic"] == "orders")
    assert orders["records"] == RECORDS


def test_gaps_that_compaction_left_are_no_damage(data_dir: Path) -> None:
    _, second, third, *_ = segments(data_dir)
    for suffix in (".log", ".index", ".timeindex"):
        second.with_suffix(suffix).unlink()
    mark = data_dir / "orders-0" / "compacted-checkpoint"
    mark.write_text(f"0\n1\n{int(third.stem)}\n")
    assert statuses(data_dir) == []
    mark.write_text(f"0\n1\n{int(second.stem)}\n")
    assert statuses(data_dir) == ["damage"]
    mark.write_text("junk")
    assert statuses(data_dir) == ["warning"]
