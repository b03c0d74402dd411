"""
YAML to JSON values with the line of each, within bounds.

Built on the event stream of libyaml rather than on PyYAML's loader: that one recurses in C and dies of deep nesting,
expands aliases without a limit, forgets lines, and lets the last of two equal keys win. Values of aliases are shared,
not copied; what they would expand to is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import yaml

from .errors import DocumentError, Problem
from .scalars import key_text, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..meta import JsonValue

MAX_DEPTH: Final = 100
"""Of nested lists and mappings. Kubernetes objects have a few dozen levels; up to this, recursion is safe."""
MAX_VALUES: Final = 2_000_000
"""Values in one document, aliases expanded. Sixteen megabytes of YAML hold fewer; a bomb holds many more."""

_EVENTS: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING_TAG: Final = "tag:yaml.org,2002:str"
_KNOWN_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "int", "float", "bool", "null"))


class Lines(NamedTuple):
    """The lines of a container's entries, and the `Lines` of those that are containers, by key or index."""

    line: int
    of: dict[str | int, int]
    below: dict[str | int, Lines]


class Parsed(NamedTuple):
    """One document: its value, and where its parts are. `lines` is None for a scalar and for JSON that is no YAML."""

    value: JsonValue
    line: int
    lines: Lines | None


class RepeatedKey(NamedTuple):
    """A key that its mapping has already."""

    key: str
    line: int


def parse(content: bytes, file: str, *, repeated: list[RepeatedKey] | None = None) -> Iterator[Parsed]:
    """
    The documents of a file; empty ones are left out.

    A key that a mapping has twice is an error unless `repeated` is given: then it is noted there, and the last wins.

    Raises:
        DocumentError: If the file is neither YAML nor JSON, or out of bounds.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError([Problem(file, "not UTF-8 text", line)]) from error
    try:
        yield from _Builder(file, repeated).documents(text)
    except yaml.YAMLError as error:
        if text.lstrip().startswith("{"):
            # JSON is YAML but for tabs and escaped surrogates; then lines are not known.
            yield _parse_json(content, file)
            return
        raise DocumentError([_yaml_problem(error, text, file)]) from error


def _parse_json(content: bytes, file: str) -> Parsed:
    try:
        return Parsed(msgspec.json.decode(content), 1, None)
    except msgspec.DecodeError as error:
        raise DocumentError([Problem(file, f"neither YAML nor JSON: {error}")]) from error


def _yaml_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
    context = getattr(error, "context", None)
    line = "".join(text.splitlines()[mark.line : mark.line + 1]) if mark else ""
    if mark and line[mark.column : mark.column + 1] == "\t":
        what, context = "a tab, where YAML takes blanks only", None  # the parser does not name what nobody can see
    words = f"not YAML: {what}" + (f" ({context})" if context else "")
    return Problem(file, words, mark.line + 1, mark.column + 1) if mark else Problem(file, words)


class _Frame:
    """A list or mapping that is being filled."""

    __slots__ = ("anchor", "key", "lines", "merges", "value", "weight")

    def __init__(self, value: dict[str, JsonValue] | list[JsonValue], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.lines = Lines(line, {}, {})
        self.key: str | None = None
        self.merges: list[JsonValue] = []
        self.weight = 1


class _Anchored(NamedTuple):
    """The value of an anchor. Weight 0 marks one that is still being filled: an alias to it would be a circle."""

    value: JsonValue
    lines: Lines | None
    weight: int


class _Builder:
    """Turns events into values. One builder reads one file."""

    def __init__(self, file: str, repeated: list[RepeatedKey] | None) -> None:
        self._file = file
        self._repeated = repeated
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchored] = {}
        self._done: Parsed | None = None

    def documents(self, text: str) -> Iterator[Parsed]:
        """All documents that are not empty."""
        for event in yaml.parse(text, Loader=_EVENTS):
            self._take(event)
            if isinstance(event, yaml.DocumentEndEvent):
                if self._done is not None and self._done.value is not None:
                    yield self._done
                self._done = None
                self._anchors.clear()

    def _take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open({}, event, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open([], event, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event, line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        plain = event.implicit[0] or (event.tag is not None and event.tag != _STRING_TAG)
        self._check_tag(event.tag, line)
        frame = self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            self._key(frame, key_text(event.value) if plain else event.value, line)
            return
        value = resolve(event.value) if plain else event.value
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, None, 1)
        self._add(value, None, 1, line)

    def _key(self, frame: _Frame, key: str, line: int) -> None:
        first = frame.lines.of.get(key)
        if first is not None and key != "<<":
            if self._repeated is None:
                raise self._error(f"the key {key!r} is set already in line {first}", line)
            self._repeated.append(RepeatedKey(key, line))
        frame.lines.of[key] = line
        frame.key = key

    def _open(self, value: dict[str, JsonValue] | list[JsonValue], event: yaml.CollectionStartEvent, line: int) -> None:
        self._check_tag(event.tag, line)
        if self._frames and isinstance(self._frames[-1].value, dict) and self._frames[-1].key is None:
            raise self._error("a mapping's key must be a word, not a list or a mapping", line)
        if len(self._frames) >= MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", line)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(None, None, 0)
        self._frames.append(_Frame(value, event.anchor, line))

    def _close(self) -> None:
        frame = self._frames.pop()
        if isinstance(frame.value, dict):
            for merged in frame.merges:
                frame.value = {**merged, **frame.value}
        if frame.anchor:
            self._anchors[frame.anchor] = _Anchored(frame.value, frame.lines, frame.weight)
        self._add(frame.value, frame.lines, frame.weight, frame.lines.line)

    def _alias(self, event: yaml.AliasEvent, line: int) -> None:
        target = self._anchors.get(event.anchor or "")
        if target is None:
            raise self._error(f"the alias *{event.anchor} refers to nothing", line)
        if target.weight == 0:
            raise self._error(f"the anchor &{event.anchor} contains itself", line)
        self._add(target.value, target.lines, target.weight, line)

    def _add(self, value: JsonValue, lines: Lines | None, weight: int, line: int) -> None:
        if not self._frames:
            self._done = Parsed(value, line, lines)
            return
        frame = self._frames[-1]
        frame.weight += weight
        if frame.weight > MAX_VALUES:
            raise self._error(f"expands to more than {MAX_VALUES} values; are there aliases of aliases?", line)
        if isinstance(frame.value, list):
            entry: str | int = len(frame.value)
            frame.value.append(value)
            frame.lines.of[entry] = line
        elif frame.key is None:
            raise self._error("an alias cannot be a mapping's key", line)
        else:
            entry, frame.key = frame.key, None
            if entry == "<<" and self._merge(frame, value, line):
                return
            frame.value[entry] = value
        if lines is not None:
            frame.lines.below[entry] = lines

    def _merge(self, frame: _Frame, value: JsonValue, line: int) -> bool:
        """Take the mappings under `<<`, whose entries the mapping's own ones override."""
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise self._error("<< takes a mapping, or a list of mappings", line)
        frame.merges.extend(sources)
        return True

    def _check_tag(self, tag: str | None, line: int) -> None:
        if tag is not None and tag not in {"!", _STRING_TAG} and tag not in _KNOWN_TAGS:
            raise self._error(f"the tag {tag} means nothing here", line)

    def _error(self, text: str, line: int) -> DocumentError:
        return DocumentError([Problem(self._file, text, line)])
