"""The runner's side of the helper process: starting it, waiting for it, ending it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.local.sandbox.channel import Channel
from ktrain.local.sandbox.executor import SandboxError

if TYPE_CHECKING:
    from ktrain.local.sandbox.wire import Frame

log = structlog.get_logger(__name__)

START_TIMEOUT_S: Final = 20.0
KILL_TIMEOUT_S: Final = 20.0

# The package's place goes in by hand: -I and -S keep everything else out of the helper's path, so that it starts in
# milliseconds whatever is installed, and imports nothing of the user's. It reads this from its standard input:
# its command line must not name the runner's program (`helper.linux.set_title`).
_BOOT: Final = "import sys; sys.path.append({root!r}); from ktrain.local.sandbox.helper.main import main; main({args})"


class Helper:
    """The helper process of one executor and the channel to it."""

    def __init__(self, mode: str, directory: str, lock: int) -> None:
        """Start it; the caller awaits `ready`. `lock` keeps the directory locked (`scratch`); we close it."""
        self._lock = lock
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).parents[3])
        program = _BOOT.format(root=root, args=f"{theirs.fileno()}, {mode!r}, {directory!r}")
        stdin, write_end = os.pipe()
        os.write(write_end, program.encode())
        os.close(write_end)
        with theirs, os.fdopen(stdin, "rb") as boot:
            # A session of its own: Ctrl-C is for the runner, which then decides how pods end.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                [sys.executable, "-IS", "-", "of", str(os.getpid())],
                pass_fds=(theirs.fileno(), lock),
                stdin=boot,
                # It says nothing there, and it must be open: the helper hands this number to programs.
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._ended = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.channel = Channel(ours, self._on_event, self._on_end)

    async def ready(self) -> None:
        """Wait until it can make pods. SandboxError with what was refused."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.shield(self._ready)
        except TimeoutError:
            raise SandboxError(f"the helper process did not start within {START_TIMEOUT_S:.0f} s") from None

    async def aclose(self) -> None:
        """End it and wait until everything below it is gone."""
        self.channel.finish()
        # The holder's end, then the janitor's: had the janitor been killed, its end alone would say nothing.
        with suppress(TimeoutError):  # Told and ended below, by `_wait`.
            async with asyncio.timeout(KILL_TIMEOUT_S):
                await self._ended.wait()
        self.channel.close()
        await asyncio.to_thread(self._wait)
        os.close(self._lock)

    def _wait(self) -> None:
        try:
            self._process.wait(KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            log.warning("sandbox.helper.stuck", pid=self._process.pid)
            self._process.kill()
            self._process.wait()

    def _on_event(self, frame: Frame) -> None:
        if self._ready.done():
            return
        if frame["event"] == "ready":
            self._ready.set_result(None)
        else:
            self._ready.set_exception(SandboxError(frame["error"]))

    def _on_end(self) -> None:
        self._ended.set()
        if not self._ready.done():
            self._ready.set_exception(SandboxError("the helper process died while starting"))
            self._ready.exception()
