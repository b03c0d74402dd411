"""
Running a program for its answer, with a bound on everything: time, output, and what it leaves behind.

Both pipes are read as data comes, so a program that writes much to one of them is never stuck on it. The program gets a
process group of its own, which is killed as a whole; one that talks to a person at a terminal stays in ours, for it
could not read from the terminal otherwise, and what it writes to stderr is shown.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_OUTPUT_BYTES: Final = 1 << 20
TAIL_BYTES: Final = 2048
"""Of stderr the end is kept: that is where programs say what was wrong."""
LINGER_S: Final = 1.0
"""How long a pipe is read on after the program has ended; a process that it left behind may hold it open for ever."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended. A negative code is the signal that killed it."""

    code: int
    output: bytes = field(repr=False)
    errors: str


class OutputTooLong(Exception):
    """The program wrote more than `MAX_OUTPUT_BYTES` and was killed."""


async def run(command: Sequence[str], env: Mapping[str, str], *, timeout_s: float, interactive: bool) -> Finished:
    """
    Run a program to its end. Cancellation kills it.

    Args:
        command: The program and its arguments.
        env: Its whole environment.
        timeout_s: After which it is killed.
        interactive: It may read from the terminal.

    Raises:
        OSError: It cannot be started.
        TimeoutError: It did not end in time.
        OutputTooLong: It wrote too much.
    """
    transport, program = await asyncio.get_running_loop().subprocess_exec(
        lambda: _Program(shown=interactive),
        *command,
        env=env,
        stdin=None if interactive else subprocess.DEVNULL,
        start_new_session=not interactive,
    )
    try:
        async with asyncio.timeout(timeout_s):
            await program.ended.wait()
    finally:
        if not program.gone.is_set():
            _kill(transport, whole_group=not interactive)
            # The kernel may keep one that waits for a disk; who asked has waited long enough.
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    await program.gone.wait()
        transport.close()
    if program.is_too_long:
        raise OutputTooLong
    return Finished(transport.get_returncode() or 0, bytes(program.output), program.errors.decode(errors="replace"))


def _kill(transport: asyncio.SubprocessTransport, *, whole_group: bool) -> None:
    # Its own group has the id of the program, which is free again only when the last of the group is gone.
    with suppress(ProcessLookupError):  # It has just ended by itself.
        if whole_group:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        else:
            transport.kill()


class _Program(asyncio.SubprocessProtocol):
    """Collects what a program writes. `gone` when it has ended; `ended` when also its pipes are read, or too long."""

    def __init__(self, *, shown: bool) -> None:
        self.output = bytearray()
        self.errors = b""
        self.is_too_long = False
        self.gone = asyncio.Event()
        self.ended = asyncio.Event()
        self._shown = shown

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.errors = (self.errors + data)[-TAIL_BYTES:]
            if self._shown:
                sys.stderr.write(data.decode(errors="replace"))
        elif len(self.output) + len(data) > MAX_OUTPUT_BYTES:
            self.is_too_long = True
            self.ended.set()
        else:
            self.output += data

    def process_exited(self) -> None:
        self.gone.set()
        # What it started may hold its pipes for as long as it likes.
        asyncio.get_running_loop().call_later(LINGER_S, self.ended.set)

    def connection_lost(self, exc: Exception | None) -> None:  # the program's code tells more
        self.ended.set()
