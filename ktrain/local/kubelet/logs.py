"""
Logs: one file per attempt of a container, and how `pods/log` reads them.

A process appends to its file directly (O_APPEND): that costs the runner no CPU, a stalled runner never blocks a rank
through a full pipe, and no log is lost with the runner. The price is that nobody sees single lines being written, so
their times are sampled: `LogStore.run` looks at the sizes once a second and notes when they grew. `timestamps` and
`sinceSeconds` are therefore exact to a second, not to a nanosecond.

A file is bounded by giving its beginning back to the file system (a hole, Linux `fallocate`): offsets stay what they
are, so readers and writers notice nothing. Where holes cannot be made, the file just grows. The last two attempts of a
container are kept.
"""

from __future__ import annotations

import bisect
import ctypes
import os
import stat
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import anyio.to_thread
import structlog

from ktrain.api.meta import Key
from ktrain.local.apiserver.reading.logs import LogOptions, LogUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from ktrain.framework import Env

KEPT_ATTEMPTS: Final = 2
SAMPLE_S: Final = 1.0
FOLLOW_POLL_S: Final = 0.05
_CHUNK: Final = 64 * 1024
_SAMPLES: Final = 4096
_KEEP_SIZE_PUNCH_HOLE: Final = 0x03
_BLOCK: Final = 4096
_UNTRUSTED: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class AttemptLog:
    """The log of one attempt. Written by the process, watched by the store."""

    path: Path
    ended: bool = False
    start: int = 0
    """Offset of the first byte that is still there."""
    times: list[datetime] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def observe(self, now: datetime) -> int:
        """Note the size and return it; bytes that are new since the last look were written by now."""
        try:
            size = self.path.stat().st_size
        except OSError:  # whose file it is may remove it, or its directory
            return self.sizes[-1] if self.sizes else 0
        if size > (self.sizes[-1] if self.sizes else 0):
            self.times.append(now)
            self.sizes.append(size)
            if len(self.sizes) > _SAMPLES:
                # Older times become coarser, recent ones stay: half of the older half is dropped.
                del self.times[: _SAMPLES // 2 : 2], self.sizes[: _SAMPLES // 2 : 2]
        return size

    def written_at(self, offset: int) -> datetime | None:
        """Return when the byte before this offset had been written; None if nobody has looked yet."""
        found = bisect.bisect_left(self.sizes, offset)
        return self.times[found] if found < len(self.times) else None

    def offset_at(self, since: datetime) -> int:
        """Return the offset below which everything was written before this time."""
        found = bisect.bisect_left(self.times, since)
        return self.sizes[found - 1] if found else 0


class LogStore:
    """The logs of all containers of one kubelet, by pod and container. Safe to use from one event loop only."""

    def __init__(self, env: Env, *, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self._env = env
        self._limit = limit_bytes
        self._logs: dict[Key, dict[str, list[AttemptLog]]] = {}

    def begin(self, pod: Key, container: str, path: Path) -> AttemptLog:
        """Register the log of a new attempt; the newest is the one that is read."""
        known = self._logs.setdefault(pod, {}).get(container, [])
        # An attempt of an earlier life may have had the number, if its status was never written.
        attempts = [*(attempt for attempt in known if attempt.path != path), AttemptLog(path)][-KEPT_ATTEMPTS:]
        self._logs[pod][container] = attempts
        return attempts[-1]

    def adopt(self, pod: Key, container: str, attempts: Sequence[AttemptLog]) -> None:
        """Register logs that are there already, the newest last."""
        self._logs.setdefault(pod, {})[container] = list(attempts[-KEPT_ATTEMPTS:])

    def end(self, attempt: AttemptLog) -> None:
        """Nothing will be written any more: readers that follow may finish."""
        attempt.observe(self._env.clock.now())
        attempt.ended = True

    def forget(self, pod: Key) -> None:
        """The pod is gone. Readers that have its files open finish in peace."""
        for attempts in self._logs.pop(pod, {}).values():
            for attempt in attempts:
                attempt.ended = True

    async def run(self) -> None:
        """Watch the files until cancelled: note when they grow, and bound them."""
        while True:
            await self._env.clock.sleep(SAMPLE_S)
            for attempt in self._growing():
                size = attempt.observe(self._env.clock.now())
                if size - attempt.start > self._limit:
                    start = (size - self._limit // 2) // _BLOCK * _BLOCK
                    if await anyio.to_thread.run_sync(_give_back, attempt.path, start):
                        attempt.start = start

    def _growing(self) -> list[AttemptLog]:
        return [a for pod in self._logs.values() for attempts in pod.values() for a in attempts if not a.ended]

    async def open(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """
        Find a log and return what it says, in pieces of any size; a log that is followed ends with its container.

        Raises:
            LogUnavailable: The container has not started, or there is no attempt before the current one.
        """
        if options.previous:
            attempts = self._logs.get(Key(namespace, pod), {}).get(container, [])
            if len(attempts) < 2:
                raise LogUnavailable(f'previous terminated container "{container}" in pod "{pod}" not found')
            return self._read(attempts[-2], options)
        return self._read(self._current(namespace, pod, container), options)

    def follow_from_now(self, namespace: str, pod: str, container: str) -> AsyncGenerator[bytes, None]:
        """Return what a container prints from this moment on, to its end. LogUnavailable."""
        attempt = self._current(namespace, pod, container)
        return self._read(attempt, LogOptions(follow=True), begin=attempt.observe(self._env.clock.now()))

    def _current(self, namespace: str, pod: str, container: str) -> AttemptLog:
        attempts = self._logs.get(Key(namespace, pod), {}).get(container, [])
        if not attempts:
            raise LogUnavailable(f'container "{container}" in pod "{pod}" is waiting to start: ContainerCreating')
        return attempts[-1]

    async def _read(self, attempt: AttemptLog, options: LogOptions, begin: int = 0) -> AsyncGenerator[bytes, None]:
        left = options.limit_bytes
        pieces = self._stamped(attempt, options) if options.timestamps else self._pieces(attempt, options, begin)
        async for _, piece in pieces:
            if left is None:
                yield piece
                continue
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    async def _pieces(
        self, attempt: AttemptLog, options: LogOptions, begin: int = 0
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (offset behind the piece, piece)."""
        since = _since(options, self._env.clock.now())
        attempt.observe(self._env.clock.now())
        file = await anyio.to_thread.run_sync(_open, attempt.path)
        try:
            position = attempt.offset_at(since) if since else begin
            if options.tail_lines is not None:
                tail = await anyio.to_thread.run_sync(_tail_offset, file, options.tail_lines)
                position = max(position, tail)
            while True:
                # Asked before reading: what was written before the end is then surely read.
                last_look = attempt.ended or not options.follow
                position = max(position, attempt.start)
                piece = b""
                if os.fstat(file).st_size > position:
                    piece = await anyio.to_thread.run_sync(os.pread, file, _CHUNK, position)
                if piece:
                    position += len(piece)
                    yield position, piece
                elif last_look:
                    return
                else:
                    await self._env.clock.sleep(FOLLOW_POLL_S)
        finally:
            os.close(file)

    async def _stamped(self, attempt: AttemptLog, options: LogOptions) -> AsyncIterator[tuple[int, bytes]]:
        """The same, each line behind its time."""
        rest = b""
        async for end, piece in self._pieces(attempt, options):
            attempt.observe(self._env.clock.now())
            *lines, rest = (rest + piece).split(b"\n")
            offset = end - len(rest)
            yield offset, b"".join(self._stamps([line + b"\n" for line in lines], offset, attempt))
        if rest:
            yield 0, b"".join(self._stamps([rest], attempt.sizes[-1], attempt))

    def _stamps(self, lines: list[bytes], end: int, attempt: AttemptLog) -> Iterator[bytes]:
        offset = end - sum(map(len, lines))
        for line in lines:
            offset += len(line)
            when = attempt.written_at(offset) or self._env.clock.now()
            yield when.strftime("%Y-%m-%dT%H:%M:%S.%fZ ").encode() + line


def _since(options: LogOptions, now: datetime) -> datetime | None:
    if options.since_seconds is not None:
        try:
            return now - timedelta(seconds=options.since_seconds)
        except OverflowError:
            return None  # before there was any time
    try:
        return datetime.fromisoformat(options.since_time) if options.since_time else None
    except ValueError:
        raise LogUnavailable(f"sinceTime {options.since_time!r} is not an RFC 3339 time") from None


def tail(path: Path, *, size: int, lines: int | None = None) -> bytes:
    """
    Read the end of a file: at most this many bytes and lines. Blocks; a file that is not there is empty.

    So is what the container has put in its place: a link would show a file of the machine, a pipe would never end.
    """
    try:
        with os.fdopen(os.open(path, _UNTRUSTED), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return b""
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            text = file.read(size)
    except OSError:
        return b""
    return text if lines is None else b"".join(text.splitlines(keepends=True)[-lines:])


def _open(path: Path) -> int:
    # The executor creates the file when it starts the process, which may be a moment from now.
    return os.open(path, _UNTRUSTED | os.O_CREAT, 0o644)


def _tail_offset(file: int, lines: int) -> int:
    """Find where the last so many lines begin."""
    position = os.fstat(file).st_size
    if lines <= 0 or position == 0:
        return position
    # A newline at the very end closes the last line, it does not begin another.
    missing = lines + (os.pread(file, 1, position - 1) == b"\n")
    while position:
        length = min(_CHUNK, position)
        position -= length
        block = os.pread(file, length, position)
        count = block.count(b"\n")
        if count >= missing:
            found = length
            for _ in range(missing):
                found = block.rindex(b"\n", 0, found)
            return position + found + 1
        missing -= count
    return 0


def _give_back(path: Path, size: int) -> bool:
    """Make a hole at the beginning of a file; False where the system cannot."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        with path.open("r+b") as file:
            arguments = ctypes.c_int(file.fileno()), ctypes.c_int(_KEEP_SIZE_PUNCH_HOLE)
            failed = libc.fallocate(*arguments, ctypes.c_int64(0), ctypes.c_int64(size))
    except (OSError, AttributeError):
        return False
    if failed:
        log.warning("log.unbounded", path=str(path), error=os.strerror(ctypes.get_errno()))
    return not failed
