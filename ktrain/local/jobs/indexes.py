"""
Sets of completion indexes as Jobs write them: increasing, runs of three or more as `a-b`, for example `1,3-5,7`.

Source: the batch/v1 API documentation of `status.completedIndexes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def parse(text: str, limit: int) -> frozenset[int]:
    """Read the text. Pieces that are corrupt are ignored, indexes of `limit` and above are cut off."""
    found: set[int] = set()
    for piece in filter(None, text.split(",")):
        first, dash, last = piece.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            continue
        found.update(range(int(first), min(int(last) if dash else int(first), limit - 1) + 1))
    return frozenset(found)


def format_indexes(indexes: Iterable[int]) -> str:
    """Write the set in the shortest increasing form."""
    pieces: list[str] = []
    for first, last in _runs(sorted(indexes)):
        if last - first >= 2:
            pieces.append(f"{first}-{last}")
        else:
            pieces.extend(str(index) for index in range(first, last + 1))
    return ",".join(pieces)


def _runs(ordered: list[int]) -> Iterable[tuple[int, int]]:
    start = 0
    for position in range(1, len(ordered) + 1):
        if position == len(ordered) or ordered[position] != ordered[position - 1] + 1:
            yield ordered[start], ordered[position - 1]
            start = position
