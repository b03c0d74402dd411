"""What a benchmark measured, and the table that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HEADER: Final = ("figure", "min", "median", "max", "unit", "ratio", "to", "goal", "")


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound that the median must keep."""

    bound: float
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {_number(self.bound)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity: a value for each run, perhaps a goal, perhaps the figure that it is compared with."""

    name: str
    unit: str
    values: Sequence[float]
    goal: Goal | None = None
    baseline: Figure | None = None

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def misses_goal(self) -> bool:
        return self.goal is not None and not self.goal.is_met(self.median)

    def cells(self) -> tuple[str, ...]:
        """The figure as a row of the table."""
        ratio = name = ""
        if self.baseline is not None and self.baseline.median:
            ratio, name = f"{self.median / self.baseline.median:.2f}", self.baseline.name
        goal = "" if self.goal is None else str(self.goal)
        verdict = "" if self.goal is None else "MISSED" if self.misses_goal else "met"
        numbers = (_number(min(self.values)), _number(self.median), _number(max(self.values)))
        return (self.name, *numbers, self.unit, ratio, name, goal, verdict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one benchmark found: figures, and facts that are no quantities."""

    figures: Sequence[Figure]
    notes: Sequence[str] = ()


def render(figures: Iterable[Figure]) -> str:
    """Lay figures out in columns; numbers are right-aligned."""
    rows = [_HEADER, *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in (1, 2, 3, 5) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _number(value: float) -> str:
    """Three digits that matter: nobody can measure more here."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
