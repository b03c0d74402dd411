"""
Descriptors that a program and somebody far away have between them: pipes, or a terminal.

`Pipes` are for one command (`exec`). A `Console` belongs to a container whose spec says `stdin` or `tty`: it keeps the
input of the main process open until somebody attaches, and writes what a terminal shows into the log, where all other
output goes by itself.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING, Final

import anyio

from ktrain.local.sandbox.executor import Stdio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

CHUNK: Final = 32 * 1024


class Descriptor:
    """One of our ends, non-blocking. Owned: `close` closes it."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd

    async def read(self) -> bytes:
        """Return what is there, waiting for something; empty at the end."""
        while self.fd >= 0:
            try:
                return os.read(self.fd, CHUNK)
            except BlockingIOError:
                await _until(anyio.wait_readable, self.fd)
            except OSError as error:
                if error.errno != errno.EIO:  # A terminal whose last user has closed it.
                    raise
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Write all of it, waiting while there is no room. Dropped when nobody reads it any more."""
        rest = memoryview(data)
        while rest and self.fd >= 0:
            try:
                rest = rest[os.write(self.fd, rest) :]
            except BlockingIOError:
                await _until(anyio.wait_writable, self.fd)
            except OSError:
                return

    def resize(self, width: int, height: int) -> None:
        """Tell a terminal its size; its foreground processes get SIGWINCH."""
        if self.fd >= 0:
            fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def close(self) -> None:
        """Close it: the program reads the end, or its terminal hangs up. Idempotent; wakes who waits."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            anyio.notify_closing(fd)
            os.close(fd)


async def _until(ready: Callable[[int], Awaitable[None]], fd: int) -> None:
    try:
        await ready(fd)
    except anyio.ClosedResourceError:
        return  # Closed meanwhile: the caller looks again.


class Pipes:
    """The streams of one command: its ends until it was started, and ours."""

    def __init__(self, *, stdin: bool, tty: bool) -> None:
        """OSError when no descriptor or terminal is left."""
        self._theirs: list[int] = []
        if tty:
            ours, theirs = os.openpty()
            self._theirs.append(theirs)
            self.stdio = Stdio(theirs, theirs, theirs, terminal=True)
            self.terminal: Descriptor | None = Descriptor(ours)
            self.stdin: Descriptor | None = self.terminal if stdin else None
            self.stdout, self.stderr = self.terminal, None
            return
        self.terminal = None
        if stdin:
            read_end, write_end = os.pipe()
            self.stdin = Descriptor(write_end)
        else:
            read_end, self.stdin = os.open(os.devnull, os.O_RDONLY), None
        out, out_theirs = os.pipe()
        err, err_theirs = os.pipe()
        self._theirs += [read_end, out_theirs, err_theirs]
        self.stdio = Stdio(read_end, out_theirs, err_theirs)
        self.stdout, self.stderr = Descriptor(out), Descriptor(err)

    def started(self) -> None:
        """Close the program's ends: it has them now, or never will. Idempotent."""
        while self._theirs:
            os.close(self._theirs.pop())

    def close(self) -> None:
        """Close everything. Idempotent."""
        self.started()
        for end in (self.stdin, self.stdout, self.stderr, self.terminal):
            if end is not None:
                end.close()


class Console:
    """Input, and if it is to have one the terminal, of a container's main process."""

    def __init__(self, log: Path, *, stdin: bool, tty: bool) -> None:
        """OSError when no descriptor or terminal is left."""
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.terminal: Descriptor | None = None
        if tty:
            ours, theirs = os.openpty()
            self.stdio = Stdio(theirs, theirs, theirs, terminal=True)
            self.terminal = Descriptor(ours)
            self.stdin: Descriptor | None = self.terminal if stdin else None
        else:
            theirs, ours = os.pipe()
            self.stdio = Stdio(theirs, self._log, self._log)
            self.stdin = Descriptor(ours)
        self._theirs = theirs
        self._copying: asyncio.Task[None] | None = None

    def started(self) -> None:
        """Close the program's end: it has it now, or never will. From here on the terminal is written to the log."""
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1
        if self.terminal is not None and self._copying is None:
            self._copying = asyncio.create_task(self._copy(self.terminal), name="console")

    async def aclose(self) -> None:
        """Close it once the program has ended; what its terminal still holds goes to the log. Idempotent."""
        if self._copying is not None:
            await asyncio.wait([self._copying], timeout=1.0)
            self._copying.cancel()
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1
        for end in (self.terminal, self.stdin):
            if end is not None:
                end.close()
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    async def _copy(self, terminal: Descriptor) -> None:
        while data := await terminal.read():
            os.write(self._log, data)
