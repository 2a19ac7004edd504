"""As a Unix tool: pipes that stay open, pipes that break, Ctrl-C, SIGTERM, and a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from cli.conftest import DEADLINE_S, Runnel, StartRunnel, command, environment
from harness.conditions import wait_until

NewName = Callable[[], str]


@pytest.fixture
def topic(runnel: Runnel, new_name: NewName) -> str:
    name = new_name()
    runnel("topic", "create", name).ok()
    return name


def test_lines_are_sent_while_the_pipe_stays_open(start_runnel: StartRunnel, runnel: Runnel, topic: str) -> None:
    with start_runnel("produce", topic) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"early\nunfinished")
        producer.stdin.flush()
        assert runnel("consume", topic, "-n", "1", "-q").ok().text == "early\n"
        assert producer.poll() is None
        producer.stdin.write(b" line\n")
        _, errors = producer.communicate(timeout=DEADLINE_S)
        assert producer.returncode == 0
        assert b"produced 2 records" in errors
    assert runnel("consume", topic, "-e", "-q").ok().lines == ["early", "unfinished line"]


def test_records_are_printed_while_they_arrive(start_runnel: StartRunnel, runnel: Runnel, topic: str) -> None:
    with start_runnel("consume", topic) as consumer:
        assert consumer.stdout is not None
        for word in ("one", "two"):
            runnel("produce", topic, "-v", word).ok()
            assert consumer.stdout.readline() == f"{word}\n".encode()
        consumer.send_signal(signal.SIGINT)
        output, errors = consumer.communicate(timeout=DEADLINE_S)
        assert (output, consumer.returncode) == (b"", 130)
        assert errors.startswith(b"consumed 2 records")
        assert errors.count(b"\n") == 1


def test_sigterm_ends_consume_cleanly(start_runnel: StartRunnel, runnel: Runnel, topic: str) -> None:
    runnel("produce", topic, "-v", "x").ok()
    with start_runnel("consume", topic) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"x\n"
        consumer.send_signal(signal.SIGTERM)
        _, errors = consumer.communicate(timeout=DEADLINE_S)
        assert consumer.returncode == 143
        assert b"Traceback" not in errors


def test_ctrl_c_sends_what_was_read(start_runnel: StartRunnel, runnel: Runnel, topic: str) -> None:
    with start_runnel("produce", topic, "--linger-ms", "600000") as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"one\ntwo\n")
        producer.stdin.flush()
        # Nothing tells from outside that the lines were read; the pipe being empty is the next best thing.
        pipe = producer.stdin.fileno()
        wait_until(lambda: producer.poll() is not None or _unread_bytes(pipe) == 0, "the pipe to be read")
        producer.send_signal(signal.SIGINT)
        _, errors = producer.communicate(timeout=DEADLINE_S)
        assert producer.returncode == 130, errors
        assert b"Traceback" not in errors
    end = runnel("topic", "describe", topic, "--json").ok().document[0]["partition_details"][0]["end_offset"]
    assert f"produced {end} record".encode() in errors
    assert end in (0, 2)


def _unread_bytes(descriptor: int) -> int:
    import array
    import fcntl
    import termios

    size = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, size)
    return size[0]


def test_a_reader_that_leaves_ends_consume_quietly(start_runnel: StartRunnel, runnel: Runnel, topic: str) -> None:
    lines = b"".join(b"%0200d\n" % number for number in range(5000))
    runnel("produce", topic, "-q", stdin=lines).ok()
    for arguments in (("-e",), ()):  # in the middle of writing, and while waiting for more
        with start_runnel("consume", topic, *arguments) as consumer:
            assert consumer.stdout is not None
            assert consumer.stderr is not None
            assert len(consumer.stdout.readline()) == 201
            consumer.stdout.close()
            assert consumer.wait(DEADLINE_S) == 141
            assert consumer.stderr.read() == b""


def test_an_idle_consume_notices_that_its_reader_left(start_runnel: StartRunnel, runnel: Runnel, topic: str) -> None:
    runnel("produce", topic, "-v", "x").ok()
    with start_runnel("consume", topic) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"x\n"
        consumer.stdout.close()
        assert consumer.wait(DEADLINE_S) == 141


def test_a_list_into_a_closed_pipe_is_quiet(bootstrap: str, topic: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command(("topic", "list")),
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(bootstrap),
        timeout=DEADLINE_S,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_terminal_gets_a_table_and_is_asked_before_a_deletion(bootstrap: str, runnel: Runnel, topic: str) -> None:
    assert "─" in run_in_terminal(bootstrap, b"", "topic", "list", "-r", topic)
    refused = run_in_terminal(bootstrap, b"n\n", "topic", "delete", topic)
    assert f"Delete {topic} and all records? [y/N]" in refused
    assert "Error: aborted" in refused
    runnel("topic", "describe", topic).ok()
    assert f"deleted {topic}" in run_in_terminal(bootstrap, b"y\n", "topic", "delete", topic)


def run_in_terminal(bootstrap: str, typed: bytes, *arguments: str) -> str:
    """The command with all three streams on a pseudo terminal; returns the screen."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        command(arguments), stdin=terminal, stdout=terminal, stderr=terminal, env=environment(bootstrap)
    )
    os.close(terminal)
    os.write(main, typed)
    screen = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # Linux: EIO when the last writer has closed the terminal
            break
        if not piece:
            break
        screen += piece
    process.wait(DEADLINE_S)
    os.close(main)
    return screen.decode()


def test_completion_of_verbs_and_names(bootstrap: str, runnel: Runnel, topic: str) -> None:
    def complete(line: str) -> str:
        word = len(line.split()) - (0 if line.endswith(" ") else 1)
        extra = {"_RUNNEL_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(word)}
        code = "from runnel.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=environment(bootstrap, extra),
            timeout=DEADLINE_S,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done.stdout

    assert "plain,consume" in complete("runnel ")
    assert "plain,add-partitions" in complete("runnel topic ")
    assert "plain,reset" in complete("runnel group ")
    assert "plain,--to-earliest" in complete("runnel group reset --to-")
    assert "plain,verify" in complete("runnel log ")
    # Completion gives up quietly after a moment rather than hold up the shell, so on a busy machine ask again.
    wait_until(lambda: f"plain,{topic}" in complete("runnel consume "), "the topic among the completions")
    runnel("group", "reset", f"g-{topic}", "-t", topic, "--to-latest", "--execute").ok()
    wait_until(lambda: f"plain,g-{topic}" in complete("runnel group describe "), "the group among the completions")
    wait_until(lambda: f"plain,{topic}" in complete("runnel config set --topic "), "the topic after an option")
