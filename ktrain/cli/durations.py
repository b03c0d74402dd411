"""Durations as people write them: `90`, `90s`, `10m`, `1h30m`."""

from __future__ import annotations

import re
from typing import Final

import click

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: str) -> float:
    """
    Seconds.

    Raises:
        ValueError: Not a duration, or not positive; the message shows how to write one.
    """
    seconds = 0.0
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = float(text)
    elif re.fullmatch(f"(?:{_PIECE.pattern})+", text):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PIECE.findall(text))
    if seconds <= 0:
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 10m or 1h30m")
    return seconds


class Duration(click.ParamType[float]):
    """A click option that is a duration; its value is seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse, or fail as a usage error."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
