"""
Resource versions that jump.

A server's versions leap when others write a lot, or when an etcd is restored with its revision raised on purpose.
Whoever counts them, compares them across kinds or keeps them in 32 bits is caught by it. The server behind knows
nothing: versions are raised in what it answers, and lowered again in what it is sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ktrain.framework.client.transport import Query

_VERSION: Final = re.compile(rb'("resourceVersion":\s*")(\d+)(")')


class _Jump(NamedTuple):
    above: int
    by: int


class Revisions:
    """The jumps so far; a version above one is raised by it."""

    def __init__(self) -> None:
        self._jumps: list[_Jump] = []

    def jump(self, above: int, by: int) -> None:
        """Raise the server's versions above this one by so much more. `above` must not fall."""
        self._jumps.append(_Jump(above, by))

    def seen(self, version: int) -> int:
        """What the client is told for a version of the server."""
        return version + sum(jump.by for jump in self._jumps if version > jump.above)

    def meant(self, version: int) -> int:
        """Which version of the server the client means; inside of a jump, the one below it."""
        raised = 0
        for jump in self._jumps:
            if version <= jump.above + raised:
                break
            if version <= jump.above + raised + jump.by:
                return jump.above
            raised += jump.by
        return version - raised

    def in_answer(self, body: bytes) -> bytes:
        """Raise the versions in an answer, or in a line of a watch."""
        return self._each(body, raised=True) if self._jumps else body

    def in_body(self, body: bytes | None) -> bytes | None:
        """Lower the versions in a request. Those inside a JSON patch's values are not recognised."""
        return self._each(body, raised=False) if self._jumps and body else body

    def in_query(self, query: Query) -> Query:
        """Lower the version in a query."""
        if not self._jumps:
            return query
        return [
            (name, str(self.meant(int(value))) if name == "resourceVersion" and value.isdecimal() else value)
            for name, value in query
        ]

    def _each(self, text: bytes, *, raised: bool) -> bytes:
        change = self.seen if raised else self.meant

        def changed(found: re.Match[bytes]) -> bytes:
            return b"%s%d%s" % (found[1], change(int(found[2])), found[3])

        return _VERSION.sub(changed, text)
