"""Sets of completion indexes as Jobs write them: `1,3-5,7`."""

from __future__ import annotations

import re
from typing import Final

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")


def parse(text: str, *, below: int) -> list[range]:
    """
    Read a set of indexes, all smaller than `below`.

    Raises:
        ValueError: It is malformed, not ascending, or goes too far; the text is the API server's.
    """
    found: list[range] = []
    for piece in text.split(",") if text else ():
        interval = parse_interval(piece, below=below)
        if found and found[-1].stop - 1 >= interval.start:
            raise ValueError(f"non-increasing order, previous: {found[-1].stop - 1}, current: {interval.start}")
        found.append(interval)
    return found


def parse_interval(piece: str, *, below: int) -> range:
    """
    Read `3` or `3-5`.

    Raises:
        ValueError: As `parse`.
    """
    limits = piece.split("-")
    if len(limits) > 2:
        raise ValueError(
            f'the fragment "{piece}" violates the requirement that an index interval can have at most two parts '
            "separated by '-'"
        )
    numbers = []
    for limit in limits:
        if not _INTEGER.fullmatch(limit):
            raise ValueError(f'cannot convert string to integer for index: "{limit}"')
        if int(limit) >= below:
            raise ValueError(f'too large index: "{limit}"')
        numbers.append(int(limit))
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return range(numbers[0], numbers[-1] + 1)


def overlap(one: str, other: str, *, below: int) -> int | None:
    """Return the first index that is in both sets, pieces that cannot be read left out."""
    both = [
        max(a.start, b.start)
        for a in _readable(one, below=below)
        for b in _readable(other, below=below)
        if max(a.start, b.start) < min(a.stop, b.stop)
    ]
    return min(both, default=None)


def _readable(text: str, *, below: int) -> list[range]:
    found = []
    for piece in text.split(",") if text else ():
        try:
            found.append(parse_interval(piece, below=below))
        except ValueError:
            continue
    return found
