"""Reading files, flattening lists, checking every object."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from .check import check_object
from .errors import DocumentError, Problem
from .kinds import Kinds, kinds_of_crds, known_kinds
from .parse import Lines, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..meta import Json, JsonValue

MAX_BYTES: Final = 16 * 2**20
"""Of all files together. The API server takes three megabytes an object."""


class Document(NamedTuple):
    """One object, and where it stands. Its parts may be shared with other objects of the file: do not change them."""

    object: Json
    file: str
    line: int


class _Entry(NamedTuple):
    document: Document
    lines: Lines | None


def load(paths: Sequence[str | Path], stdin: BinaryIO | None = None) -> list[Document]:
    """
    Read and check all objects of all files, in order; `-` is standard input. Blocks: do not call it in the event loop.

    Raises:
        DocumentError: With everything that is wrong in any of the files.
    """
    problems: list[Problem] = []
    entries: list[_Entry] = []
    left = MAX_BYTES
    for path in paths:
        file = "<stdin>" if str(path) == "-" else str(path)
        try:
            content = _read(path, file, left, stdin)
            left -= len(content)
            entries.extend(_entries(content, file))
        except DocumentError as error:
            problems.extend(error.problems)
    kinds = known_kinds()
    crds = [e.document.object for e in entries if e.document.object.get("kind") == "CustomResourceDefinition"]
    if crds:
        kinds = kinds | kinds_of_crds(crds)
    for entry in entries:
        problems.extend(sorted(_problems(entry, kinds), key=lambda problem: problem.line))
    if problems:
        raise DocumentError(problems)
    return [entry.document for entry in entries]


def _read(path: str | Path, file: str, limit: int, stdin: BinaryIO | None) -> bytes:
    """The content, refused before it is read whole if it is too large."""
    try:
        if str(path) == "-":
            content = (stdin or sys.stdin.buffer).read(limit + 1)
        else:
            with Path(path).open("rb") as opened:
                status = os.fstat(opened.fileno())
                if stat.S_ISREG(status.st_mode) and status.st_size > limit:
                    raise DocumentError([Problem(file, _too_large(status.st_size))])
                content = opened.read(limit + 1)
    except OSError as error:
        why = error.strerror or str(error)
        if isinstance(error, FileNotFoundError) and "://" in str(path):
            why = "it is no file but a URL; fetch it, and give the file, or - for standard input"
        raise DocumentError([Problem(file, f"cannot be read: {why}")]) from error
    if len(content) > limit:
        raise DocumentError([Problem(file, _too_large(None))])
    return content


def _too_large(size: int | None) -> str:
    known = f" of {size / 2**20:.0f} MB" if size is not None else ""
    return f"the file{known} is too large; all files together may have {MAX_BYTES // 2**20} MB"


def _entries(content: bytes, file: str) -> Iterator[_Entry]:
    found = False
    for parsed in parse(content, file):
        found = True
        yield from _flatten(parsed.value, parsed.line, parsed.lines, file)
    if not found:
        raise DocumentError([Problem(file, "holds no object")])


def _flatten(value: JsonValue, line: int, lines: Lines | None, file: str) -> Iterator[_Entry]:
    """The object, or the objects of a list kind, which leaves out their kind if it is a typed one."""
    if not isinstance(value, dict):
        raise DocumentError([Problem(file, f"expected an object, found {_described(value)}", line)])
    kind, items = value.get("kind"), value.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield _Entry(Document(value, file, line), lines)
        return
    below = lines.below.get("items") if lines else None
    of_items = {} if kind == "List" else {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, item in enumerate(items):
        whole = {**of_items, **item} if isinstance(item, dict) else item
        at = below.of[index] if below else line
        yield from _flatten(whole, at, below.below.get(index) if below else None, file)


def _described(value: JsonValue) -> str:
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _problems(entry: _Entry, kinds: Kinds) -> Iterator[Problem]:
    document = entry.document
    findings = check_object(document.object, entry.lines, kinds)
    for finding in findings:
        yield Problem(document.file, finding.text, finding.line or document.line, path=finding.path)
