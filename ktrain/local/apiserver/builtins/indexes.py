"""Sets of completion indexes as Jobs write them: `1,3-5,7`."""

from __future__ import annotations

from typing import Final

MAX_TEXT: Final = 64 * 1024


def parse(text: str, *, below: int) -> list[range]:
    """
    Read a set of indexes, all smaller than `below`.

    Raises:
        ValueError: It is malformed, not ascending, or goes too far.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"may not be longer than {MAX_TEXT} characters")
    found: list[range] = []
    last = -1
    for part in text.split(","):
        first_text, dash, end_text = part.partition("-")
        try:
            first = int(first_text)
            end = int(end_text) if dash else first
        except ValueError:
            raise ValueError(f'cannot convert string to integer for index: "{part}"') from None
        if first <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        if dash and end <= first:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        if end >= below:
            raise ValueError(f'too large index: "{end}"')
        found.append(range(first, end + 1))
        last = end
    return found


def count(text: str, *, below: int) -> int:
    """
    Return how many indexes a set has.

    Raises:
        ValueError: As `parse`.
    """
    return sum(map(len, parse(text, below=below)))
