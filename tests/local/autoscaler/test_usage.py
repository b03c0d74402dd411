"""CPU time of processes, read from /proc."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ktrain.local.autoscaler.usage import cpu_seconds

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
SPENT_S = 0.3
BUSY = f"""
import os, sys, time
def work():
    while time.process_time() < {SPENT_S}: pass
if os.fork() == 0:
    work()
    os._exit(0)
if sys.argv[1] == "waits": os.wait()
elif os.fork() == 0:
    work()
    print("spent", flush=True)
    time.sleep(60)
print("spent", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run():
    """`run(how)` starts the program and returns it when it says that it has spent its time."""
    running = []

    def start(how):
        program = subprocess.Popen(
            [sys.executable, "-c", BUSY, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        running.append(program)
        for _ in range(1 if how == "waits" else 2):
            assert program.stdout.readline() == b"spent\n"
        return program

    yield start
    for program in running:
        with program, contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)


@pytest.mark.parametrize("how", ["waits", "lives"])
def test_the_time_of_children_counts_while_they_live_and_when_they_were_waited_for(run, how):
    program = run(how)

    assert cpu_seconds([program.pid]) >= SPENT_S * 0.9


def test_nothing_is_known_of_a_process_that_has_ended(run):
    program = run("waits")
    program.communicate(b"")

    assert cpu_seconds([program.pid]) is None
