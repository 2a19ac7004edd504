"""The process that runs rounds of compaction for a broker; `runners` starts it.

In: a job per line on standard input; out: a line per new segment, and one at the end of a round. It steps back
for everything else on the machine, and is the first to go where memory runs out. End of input means that the broker
is gone or has nothing to do: the process ends at once, whatever it was doing.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import sys
import threading
import time

from runnel.storage.compaction.cleaning import clean
from runnel.storage.compaction.pace import Throttle
from runnel.storage.compaction.runners import decode_job, encode_answers
from runnel.storage.files import OsFiles

NICENESS = 10
MEMORY_VICTIM = "500"
"""Of /proc/self/oom_score_adj: rather this process than the broker."""


def main() -> None:
    with contextlib.suppress(BrokenPipeError):  # the broker is gone
        serve()
    os._exit(0)


def serve() -> None:
    step_back()
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    answers = sys.stdout.buffer
    while True:
        job = decode_job(jobs.get())
        for line in encode_answers(clean(job, OsFiles(), Throttle(job.io_bytes_per_s, _pause))):
            answers.write(line)
            answers.flush()


def step_back() -> None:
    os.nice(NICENESS)
    gc.disable()  # records leave no cycles behind, and walking millions of keys for nothing costs
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(MEMORY_VICTIM)


def _listen(jobs: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)


def _pause(seconds: float) -> bool:
    if seconds > 0:
        time.sleep(seconds)
    return False
