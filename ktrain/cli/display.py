"""
The screen: a status line, and log lines with the pod's name before them.

On a terminal the status line is alive at the bottom and names are coloured; elsewhere everything is plain lines, a
status line whenever it changes. rich is imported only for a terminal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from .follow import Progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.live import Live
    from rich.text import Text

COLOURS: Final = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")


class Display(Protocol):
    """Where a run shows what happens."""

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
        self._stream.flush()

    def note(self, text: str) -> None:
        """Write the line."""
        self._write(text)

    def log(self, source: str, line: str) -> None:
        """Write the line after its source."""
        self._write(f"[{source}] {line}")

    def status(self, progress: Progress) -> None:
        """Write the state if its text is another than last time."""
        text = str(progress)
        if text != self._last:
            self._last = text
            self._write(f"{self._name}: {text}")

    def tick(self) -> None:
        """Show nothing: a file is no place for a clock."""

    def _write(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveDisplay:
    """A terminal: log lines scroll, the status line stays."""

    def __init__(self, stream: TextIO, name: str, elapsed: Callable[[], float]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False)
        self._name = name
        self._elapsed = elapsed
        self._progress = Progress()
        self._colours: dict[str, str] = {}
        # Refreshed by `tick`: rich's own thread has no event loop, and with it no clock.
        self._live: Live = Live(console=self._console, get_renderable=self._line, auto_refresh=False, transient=True)

    def __enter__(self) -> Display:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        self._console.print(self._line())

    def note(self, text: str) -> None:
        """Print the line above the status line."""
        self._console.print(text, markup=False)

    def log(self, source: str, line: str) -> None:
        """Print the line after its coloured source, above the status line."""
        from rich.text import Text

        colour = self._colours.setdefault(source, COLOURS[len(self._colours) % len(COLOURS)])
        self._console.print(Text.assemble((f"[{source}] ", colour), Text(line)), soft_wrap=True)

    def status(self, progress: Progress) -> None:
        """Show the state in the status line."""
        self._progress = progress
        self._live.refresh()

    def tick(self) -> None:
        """Draw the status line anew."""
        self._live.refresh()

    def _line(self) -> Text:
        from rich.text import Text

        seconds = int(self._elapsed())
        return Text.assemble(
            (f"{self._name} ", "bold"), str(self._progress), (f"  {seconds // 60}:{seconds % 60:02d}", "dim")
        )


def make_display(name: str, elapsed: Callable[[], float], *, stream: TextIO | None = None) -> Display:
    """Pick the display that fits the stream (default: stdout)."""
    stream = stream or sys.stdout
    if stream.isatty():
        return LiveDisplay(stream, name, elapsed)
    return PlainDisplay(stream, name)
