"""The tables of `ktrain top` as text, and the terminal that they are drawn on."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

import click

from ktrain.cli.display import tame, write

from .jobs import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .figures import Figures
    from .jobs import Row
    from .views import View

COLOURS: Final = {"Stalled": "red", "Failed": "red", "Restarting": "yellow", "Running": "green", "Complete": "cyan"}
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGES: Final = (
    *((600, "m", "s"), (3 * 3600, "m", ""), (8 * 3600, "h", "m"), (48 * 3600, "h", "")),
    *((8 * 86400, "d", "h"), (float("inf"), "d", "")),
)
"""Which units an age below so many seconds is written in."""
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""Another screen than the shell's, without a cursor."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST_OF_SCREEN: Final = "\x1b[J"


def lines(view: View, *, columns: int | None = None, rows: int | None = None) -> list[str]:
    """Write a view as lines, cut to a number of columns and rows; jobs give way to the rest."""
    head = [_summary(view), *([f"note: {view.note}"] if view.note else [])]
    tail = [] if view.figures is None else _figures(view.figures, None if rows is None else max(rows // 6, 3))
    jobs = _table(_JOBS, [_job(row) for row in view.jobs]) if view.jobs else ["no TrainJobs"]
    if rows is not None:
        room = max(rows - len(head) - len(tail) - 3, 2)
        if len(jobs) > room:
            jobs = [*jobs[: room - 1], f"... {len(jobs) - room} more"]
    found = [*head, "", *jobs, *([""] if tail else []), *tail]
    found = [tame(line) for line in found]
    return found if columns is None else [line[:columns] for line in found][:rows]


def _summary(view: View) -> str:
    counts = {state: sum(row.state == state for row in view.jobs) for state in STATES}
    states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return f"ktrain top  {view.time}  {view.where}: {len(view.jobs)} TrainJobs" + (f" ({states})" if states else "")


_JOBS: Final = ("NAMESPACE", "NAME", "STATE", "NODES", "RESTARTS", "AGE", "RUNTIME", "REASON")
_CONTROLLERS: Final = (
    *("CONTROLLER", "RECONCILES/S", "ERRORS/S", "P50", "P99", "WORKERS"),
    *("QUEUE", "WAIT P99", "LONGEST"),
)
_PLUGINS: Final = ("PLUGIN", "CALLS/S", "TIME", "FAILURES")


def _job(row: Row) -> tuple[str, ...]:
    age = duration(row.age_s)
    return (row.namespace, row.name, row.state, row.nodes, str(row.restarts), age, row.runtime, row.reason)


def _figures(figures: Figures, most: int | None) -> list[str]:
    """Write controllers, and so many plugins: those that failed, then those that take the most time."""
    controllers = [
        (
            one.name,
            f"{one.reconciles_per_s:.1f}",
            f"{one.errors_per_s:.1f}",
            seconds(one.p50_s),
            seconds(one.p99_s),
            f"{one.active}/{one.workers}",
            str(one.depth),
            seconds(one.wait_p99_s),
            seconds(one.longest_s or None),
        )
        for one in figures.controllers
    ]
    shown = sorted(figures.plugins, key=lambda one: (-one.failures, -one.share, one.name))[:most]
    plugins = [(one.name, f"{one.calls_per_s:.1f}", f"{one.share:.1%}", str(one.failures)) for one in shown]
    return [*_table(_CONTROLLERS, controllers), *(["", *_table(_PLUGINS, plugins)] if plugins else [])]


def _table(head: tuple[str, ...], found: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *found)) for column in range(len(head))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in (head, *found)
    ]


def duration(age_s: float) -> str:
    """Write an age as kubectl does, in one or two units."""
    total = int(age_s)
    if total < 120:
        return f"{total}s"
    unit, small = next((unit, small) for below, unit, small in _AGES if total < below)
    rest = f"{total % _UNITS[unit] // _UNITS[small]}{small}" if small else ""
    return f"{total // _UNITS[unit]}{unit}" + ("" if rest.startswith("0") else rest)


def seconds(value: float | None) -> str:
    """Write a length of time; `-` if there is none."""
    if value is None:
        return "-"
    if value < 0.001:
        return f"{value * 1e6:.0f}us"
    return f"{value * 1e3:.0f}ms" if value < 1 else f"{value:.1f}s"


class Screen:
    """A terminal that is drawn on in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the terminal, and give it back as it was."""
        write(self._stream, _ENTER)
        try:
            yield
        finally:
            write(self._stream, _LEAVE)

    def draw(self, view: View) -> None:
        """
        Draw a view over the one before.

        Raises:
            OutputClosed: The terminal is gone.
        """
        size = shutil.get_terminal_size()
        drawn = [_coloured(line) for line in lines(view, columns=size.columns, rows=size.lines)]
        text = f"{_REST_OF_LINE}\n".join(drawn)
        write(self._stream, f"{_HOME}{text}{_REST_OF_LINE}{_REST_OF_SCREEN}")


@contextmanager
def keys() -> Iterator[asyncio.Event]:
    """Read keys without waiting for a line, where stdin is a terminal; `q` sets the event."""
    import termios
    import tty

    pressed = asyncio.Event()
    if not sys.stdin.isatty():
        yield pressed
        return
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        typed = os.read(descriptor, 64)
        if not typed or b"q" in typed.lower():
            pressed.set()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield pressed
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _coloured(line: str) -> str:
    """Colour the heads of tables, and the state in the row of a job."""
    if line.startswith((_JOBS[0], _CONTROLLERS[0], _PLUGINS[0], "ktrain top")):
        return click.style(line, bold=True)
    words = line.split(maxsplit=3)
    if len(words) > 2 and words[2] in COLOURS:
        return line.replace(f" {words[2]} ", f" {click.style(words[2], fg=COLOURS[words[2]])} ", 1)
    return line
