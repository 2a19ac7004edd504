"""`runnel serve` as a process: one line on stdout, help on stderr, a clean end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from cli.conftest import command, environment
from harness.process import READY_LINE, BrokerProcess


def test_stdout_has_the_ready_line_and_stderr_how_to_talk_to_it(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    assert broker.stdout_path.read_text() == f"ready kafka={broker.address}\n"
    done = subprocess.run(
        command(("produce", "greetings", "-b", broker.address)), input=b"hello\n", capture_output=True, check=True
    )
    assert b"produced 1 record" in done.stderr
    assert broker.terminate() == 0
    stderr = broker.stderr_text()
    assert f"bootstrap.servers={broker.address}" in stderr
    assert f"runnel produce greetings -b {broker.address}" in stderr
    assert broker.stdout_path.read_text().count("\n") == 1


def test_settings_by_flag_file_and_environment(tmp_path: Path) -> None:
    settings = tmp_path / "runnel.yaml"
    settings.write_text("num.partitions: 4\n")
    process = subprocess.Popen(
        command(
            ("serve", "--memory", "--listen", "127.0.0.1:0", "--config", str(settings), "--set", "num.partitions=3")
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(None, {"RUNNEL_NUM_PARTITIONS": "5"}),
    )
    try:
        assert process.stdout is not None
        ready = READY_LINE.match(process.stdout.readline().decode())
        assert ready is not None
        address = f"{ready['host']}:{ready['port']}"
        done = subprocess.run(command(("topic", "create", "t", "-b", address)), capture_output=True, check=True)
        assert done.stdout == b"created t (3 partitions, replication factor 1)\n"
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_port_in_use_is_one_line(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    done = subprocess.run(
        command(("serve", "--memory", "--listen", broker.address)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert [line for line in done.stderr.splitlines() if line.startswith("Error: cannot start")]
    assert "Traceback" not in done.stderr


def test_a_data_directory_in_use_names_the_other_process(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    arguments = ("serve", "--data-dir", str(broker.data_dir), "--listen", "127.0.0.1:0")
    done = subprocess.run(command(arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert str(broker.running().pid) in done.stderr
    assert "Traceback" not in done.stderr
