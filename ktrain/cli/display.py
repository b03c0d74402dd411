"""
The screen: a status line, and log lines with the pod's name before them.

On a terminal the status line is alive at the bottom and names are coloured; elsewhere everything is plain lines, a
status line whenever it changes. Written by hand because a job may print thousands of lines a second, which a layout
engine that measures each of them cannot show.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Final, Protocol, TextIO

import click

from .follow import Progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

COLOURS: Final = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")
_ERASE_LINE: Final = "\r\x1b[2K"
# Colours pass; what moves the cursor, clears the screen or sets the title does not.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]*(?!m)[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[^\[\]])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]")


class OutputClosed(Exception):
    """Nobody reads what is written any more: the pipe is closed, or its disk is full."""


class Display(Protocol):
    """Where a run shows what happens. Every method raises OutputClosed when that is impossible."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def note(self, text: str) -> None:
        """Show a line about the run itself."""

    def log(self, source: str, line: str) -> None:
        """Show a line of a pod's log."""

    def status(self, progress: Progress) -> None:
        """Show the state of affairs; cheap when nothing changed."""

    def tick(self) -> None:
        """Show that time passes. To be called a few times a second."""


class PlainDisplay:
    """Plain lines, for pipes and files."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._last = ""

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def note(self, text: str) -> None:
        """Write the line."""
        write(self._stream, f"{text}\n")

    def log(self, source: str, line: str) -> None:
        """Write the line after its source."""
        write(self._stream, f"[{source}] {line}\n")

    def status(self, progress: Progress) -> None:
        """Write the state if its text is another than last time."""
        text = str(progress)
        if text != self._last:
            self._last = text
            self.note(f"{self._name}: {text}")

    def tick(self) -> None:
        """Show nothing: a file is no place for a clock."""


class LiveDisplay:
    """
    A terminal: lines scroll, the status line stays below them.

    Lines are gathered and written with the next tick, so that their number costs little.
    """

    def __init__(self, stream: TextIO, name: str, elapsed: Callable[[], float]) -> None:
        self._stream = stream
        self._name = name
        self._elapsed = elapsed
        self._progress = Progress()
        self._colours: dict[str, str] = {}
        self._lines: list[str] = []
        self._is_live = False

    def __enter__(self) -> Display:
        self._is_live = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_live = False
        if not isinstance(error, OutputClosed):
            self._draw(end="\n")

    def note(self, text: str) -> None:
        """Show the line, above the status line if there is one."""
        if self._is_live:
            self._lines.append(text)
            self._draw()
        else:
            write(self._stream, f"{text}\n")

    def log(self, source: str, line: str) -> None:
        """Show the line after its coloured source, above the status line."""
        colour = self._colours.setdefault(source, COLOURS[len(self._colours) % len(COLOURS)])
        self._lines.append(f"{click.style(f'[{source}]', fg=colour)} {tame(line)}")

    def status(self, progress: Progress) -> None:
        """Keep the state for the next tick."""
        self._progress = progress

    def tick(self) -> None:
        """Write the lines gathered, and the status line anew."""
        self._draw()

    def _draw(self, end: str = "") -> None:
        above = "".join(f"{line}\x1b[0m\n" for line in self._lines)
        self._lines.clear()
        write(self._stream, f"{_ERASE_LINE}{above}{self._status_line()}{end}")

    def _status_line(self) -> str:
        seconds = int(self._elapsed())
        clock = f"{seconds // 60}:{seconds % 60:02d}"
        room = shutil.get_terminal_size().columns - len(self._name) - len(clock) - 4
        text = tame(str(self._progress))
        shown = text if len(text) <= room else f"{text[: max(room - 1, 0)]}…"
        return f"{click.style(self._name, bold=True)} {shown}  {click.style(clock, dim=True)}"


def tame(line: str) -> str:
    """Make a program's line safe for a terminal that is shared: colours stay, other control sequences go."""
    return _CONTROLS.sub("", _ESCAPES.sub("", line))


def write(stream: TextIO, text: str) -> None:
    """
    Write and flush.

    Raises:
        OutputClosed: It cannot be written.
    """
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        raise OutputClosed(error.strerror or str(error)) from error


def make_display(name: str, elapsed: Callable[[], float], *, stream: TextIO) -> Display:
    """Pick the display that fits the stream."""
    if stream.isatty():
        return LiveDisplay(stream, name, elapsed)
    return PlainDisplay(stream, name)


def close_quietly() -> None:
    """Keep the interpreter from complaining at its end about a pipe that nobody reads."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if not stream.isatty():
            os.dup2(devnull, stream.fileno())


def printable(text: str) -> str:
    """Return what users write into their objects without control characters, which a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
