"""`ktrain run` on a terminal: colours, a status line that lives, and an end that stays on the screen."""

import os
import pty
import re
import subprocess

import pytest

from .conftest import KTRAIN

pytestmark = pytest.mark.e2e


def run_on_a_terminal(arguments, cwd):
    """Run `ktrain` with a pseudo terminal as its stdout; return what it wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*KTRAIN, *arguments],
        cwd=cwd,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # the terminal is gone with its last process
        pass
    finally:
        os.close(ours)
    return process.wait(60), written.decode()


def test_a_run_on_a_terminal_shows_a_living_status_line_and_coloured_names(train_job, tmp_path):
    code, screen = run_on_a_terminal(["run", str(train_job("import time; print('hi'); time.sleep(1)\n"))], tmp_path)

    assert code == 0, screen
    assert "Traceback" not in screen
    assert re.search(r"\x1b\[36m\[node-0\]", screen)
    assert "Running: 1/1 nodes running" in screen
    assert "0:01" in screen
    assert "Complete: 0/1 nodes running, 0 ready, 1 succeeded" in screen.splitlines()[-1]
