"""Programs beside a test that say at a health port when they are ready, as operators do."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LOOPBACK: Final = "127.0.0.1"
_POLL_S: Final = 0.1
_LAST_WORDS: Final = 3000
"""So many characters of a log are told."""


class StartFailed(Exception):
    """A program did not come up; the message has the end of its log."""


@final
class Program:
    """
    A program that can be stopped and started. It must be stopped before the test ends.

    Args:
        command: Its arguments, the program's path first.
        log: Gets what it prints, after what the file holds already.
        health_port: Where `/readyz` answers when it is ready, on loopback.
        environment: All of its environment; by default that of this process.
        ready_within_s: Time to become ready.
        stop_within_s: Time to end, then it is killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        health_port: int,
        environment: Mapping[str, str] | None = None,
        ready_within_s: float = 90.0,
        stop_within_s: float = 30.0,
    ) -> None:
        self.log = log
        self._command = command
        self._health = f"http://{LOOPBACK}:{health_port}/readyz"
        self._environment = environment
        self._ready_within_s = ready_within_s
        self._stop_within_s = stop_within_s
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """
        Start it and return when it is ready. Blocks, so coroutines call it in a thread.

        Raises:
            StartFailed: It ended, or was not ready in time.
        """
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- what the test names
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline_s = time.monotonic() + self._ready_within_s
        while not self._is_ready():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline_s:
                raise StartFailed(f"{self._command[0]} is not ready (exit code {code}):\n{self.last_words()}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Ask it to end, as a kubelet does, and return when it has ended. Nothing if it does not run. Blocks."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(self._stop_within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def last_words(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-_LAST_WORDS:]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self._health, timeout=2):  # noqa: S310 -- its own port
                return True
        except OSError:
            return False


def free_ports(count: int, *, host: str = LOOPBACK) -> list[int]:
    """Return ports that nobody listens on at the moment; with an empty `host`, on no address of this machine."""
    sockets = [socket.create_server((host, 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
