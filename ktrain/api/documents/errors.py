"""What is wrong with users' files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Problem(NamedTuple):
    """One thing wrong: where, and what. Lines and columns count from 1; 0 means unknown."""

    file: str
    text: str
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        place = ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])
        return f"{place}: {self.path}: {self.text}" if self.path else f"{place}: {self.text}"


class DocumentError(Exception):
    """Files that cannot be used; reads as one line for each problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))
