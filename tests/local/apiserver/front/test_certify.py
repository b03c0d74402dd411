"""A certificate that is made elsewhere is not lost to a signal that its maker handles."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, threading
from datetime import UTC, datetime
import anyio
from ktrain.local.apiserver.front.certify import make_identity

async def main():
    with anyio.open_signal_receiver(signal.SIGINT):
        async with anyio.create_task_group() as group:
            group.start_soon(interrupt)
            print((await make_identity("127.0.0.1", now=datetime.now(UTC))).certificate.decode())

async def interrupt():
    await anyio.sleep(0.05)  # the other process is there, and has not got far
    os.killpg(0, signal.SIGINT)

anyio.run(main)
"""


def test_ctrl_c_at_a_terminal_leaves_the_maker_of_the_certificate_alone():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, start_new_session=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "BEGIN CERTIFICATE" in done.stdout
