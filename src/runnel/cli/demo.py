"""`runnel demo`: a shop from end to end: broker, events, a Spark pipeline, tables, alerts, lake, plot.

In: a folder. Out: what is going on, until Ctrl-C; or, with --once, a result that was checked, and its exit code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.cli.demo_broker import serving
from runnel.cli.demo_lock import alone_in
from runnel.cli.demo_screen import FlowLine, Screen, document, shown
from runnel.cli.extras import plain_words
from runnel.cli.options import BOOTSTRAP_DEFAULT, json_option
from runnel.cli.output import counted, print_json
from runnel.cli.pipeline_stop import StopRequest

if TYPE_CHECKING:
    from runnel.examples.shop.folder import DemoFolder
    from runnel.examples.shop.play import Play
    from runnel.spark.pipelines import PipelineSession, RunResult

EXIT_FAILED = 1
MINUTES_ONCE = 180
"""How much of the shop's time --once sends: long enough for an outage of the payment provider."""
PAUSE_S = 2.0
TAKEN_UP = "the same command takes it up"
# For many small batches on few cores: compiling plans and bytecode well takes longer than running them as they are.
LIGHT = {"spark.driver.memory": "1g", "spark.sql.codegen.wholeStage": "false"}
LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@click.command()
@click.argument("example", type=click.Choice(["shop"]), default="shop")
@click.option("--once", is_flag=True, help="Send, run, check the result, end: 0 if it is right.")
@click.option(
    "--events", type=click.IntRange(min=500), default=20_000, show_default=True, help="About how many, with --once."
)
@click.option(
    "--parts", type=click.IntRange(1, 18), default=2, show_default=True, help="Runs of the pipeline, with --once."
)
@click.option("--rate", type=click.IntRange(min=4), default=100, show_default=True, help="Events a second.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes the same events.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("runnel-demo"), show_default=True)
@click.option("--data-dir", type=click.Path(path_type=Path), help="The broker's.  [default: in the folder]")
@click.option("--port", type=click.IntRange(0, 65535), default=9092, show_default=True, help="0 picks a free one.")
@click.option("--fresh", is_flag=True, help="Delete what an earlier demo left in the folder; else it is taken up.")
@click.option("--master", metavar="URL", help="Where Spark runs: spark://head:7077, sc://host.  [default: here]")
@json_option
def demo(
    example: str,
    once: bool,
    events: int,
    parts: int,
    rate: int,
    seed: int,
    folder: Path,
    data_dir: Path | None,
    port: int,
    fresh: bool,
    master: str | None,
    as_json: bool,
) -> int:
    """A shop from end to end: orders, payments and clicks, some late, some malformed.

    They flow through topics into cleaned and joined tables, revenue per window, a funnel, a topic of alerts, lake
    tables and a plot. Runs until Ctrl-C. A shop's minute takes a second.

    \b
    runnel demo
    runnel demo --once --events 5000
    """
    if as_json and not once:
        raise click.UsageError("--json is for --once: without it the demo has no end")
    with plain_words("pipelines"):
        from runnel.examples.shop.folder import DemoFolder
        from runnel.examples.shop.journeys import RECORDS_PER_SESSION
        from runnel.examples.shop.play import Play

        place, stop = DemoFolder(folder.absolute()), StopRequest()
        place.prepare()
        with alone_in(place.root):
            if fresh:
                place.prepare(fresh=True)
            per_minute = events / MINUTES_ONCE if once else rate
            ledger = place.load(seed, max(1, round(per_minute / RECORDS_PER_SESSION)))
            screen = Screen(quiet=as_json)
            data = data_dir or place.broker_data
            with serving(data, port, place.broker_log, stop.request) as address, stop.listening():
                screen.step(f"broker at {address}", f"data in {shown(data)}")
                place.write_project(address)
                with _spark(screen, place, master) as session, stop.interrupting(session):
                    play = Play(place, address, ledger, session)
                    return _once(screen, play, stop, parts, as_json=as_json) if once else _go_on(screen, play, stop)


@contextmanager
def _spark(screen: Screen, place: DemoFolder, master: str | None) -> Iterator[PipelineSession]:
    from runnel.spark.pipelines import PipelineSession

    os.environ.setdefault("SPARK_SUBMIT_OPTS", LIGHT_JAVA)
    with screen.working("starting Spark, which takes some seconds"):
        session = PipelineSession(place.project, master=master, conf=LIGHT)
    with session:
        screen.step(f"Spark {session.spark.version}", f"runs the project in {shown(place.project)}")
        yield session


def _once(screen: Screen, play: Play, stop: StopRequest, parts: int, *, as_json: bool) -> int:
    """In parts: each run takes up what the one before left."""
    runs: list[RunResult] = []
    for part in range(parts):
        if stop.is_requested:  # perhaps while Spark started
            break
        sent = play.send(MINUTES_ONCE * (part + 1) // parts - MINUTES_ONCE * part // parts)
        screen.step(f"{counted(sent, 'event')} sent", "to shop.orders, shop.payments, shop.clicks")
        runs.append(_run(screen, play, stop, len(runs) + 1))
    if stop.is_requested:
        _stopped(screen, play, stop)
        return stop.exit_code
    result = play.result()
    screen.tables(result)
    found, differing = play.check()
    screen.checked(found, differing)
    screen.step("plot", shown(play.folder.plot))
    if as_json:
        print_json({**document(result, found, differing, runs), "plot": str(play.folder.plot)})
    return EXIT_FAILED if differing else 0


def _go_on(screen: Screen, play: Play, stop: StopRequest) -> int:
    with play.feed(minute_s=1.0) as feeder:
        screen.step("events flow", "into shop.orders, shop.payments and shop.clicks")
        number = 0
        while not stop.is_requested:
            if feeder.failure is not None:
                raise feeder.failure
            number += 1
            _run(screen, play, stop, number)
            if stop.is_requested:
                break
            screen.tables(play.result())
            screen.step("plot", shown(play.folder.plot))
            if number == 1:
                _hints(screen, play)
            stop.wait(PAUSE_S)
    _stopped(screen, play, stop)
    return 0


def _stopped(screen: Screen, play: Play, stop: StopRequest) -> None:
    """By somebody, or because the broker has ended: Spark would wait for that for many minutes."""
    if stop.signal_number is None:
        log = shown(play.folder.broker_log)
        raise click.ClickException(f"the broker has ended; what it said last is in {log}, and {TAKEN_UP}")
    screen.step("stopped", TAKEN_UP)


def _run(screen: Screen, play: Play, stop: StopRequest, number: int) -> RunResult:
    flows = FlowLine(f"run {number}")
    with screen.working(flows.title) as update:
        result = play.run(on_progress=lambda progress: update(flows.after(progress)))
    if stop.is_requested:
        return result  # whatever became of it: the next demo takes it up
    if not result.ok:
        raise click.ClickException(f"the pipeline failed: {result.error}")
    screen.run_done(number, result)
    return result


def _hints(screen: Screen, play: Play) -> None:
    flag = "" if play.bootstrap == BOOTSTRAP_DEFAULT else f" -b {play.bootstrap}"
    screen.step("look at it", f"runnel topic list{flag} · runnel group list{flag} · runnel consume shop.alerts{flag}")
    screen.step("end it", "with Ctrl-C")
