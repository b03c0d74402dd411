"""
JSON that is nested deeper than a decoder can follow.

msgspec, like the standard library, descends by recursion and gives up with RecursionError at some hundred to some
thousand levels, also in fields that nobody declared. The API server sends such objects where a schema preserves unknown
fields, so whoever may create one could blind every reader of its kind. What is needed then is little: which object it
was, and its neighbours. Both are found here without recursion. Slow beside a decoder; used only after one gave up.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def cut(document: bytes, levels: int) -> tuple[bytes, list[bytes]]:
    """
    Cut the objects and arrays below a level out of a JSON document.

    Returns:
        The document with `null` in the place of each, and what was cut out, in order. The outermost object is level 1.
    """
    kept: list[bytes] = []
    pieces: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(document):
        character = token[0]
        if character in {b"{", b"["}:
            depth += 1
            if depth == levels + 1:
                kept += (document[start : token.start()], b"null")
                start = token.start()
        elif character in {b"}", b"]"}:
            if depth == levels + 1:
                pieces.append(document[start : token.end()])
                start = token.end()
            depth -= 1
    return b"".join((*kept, document[start:])), pieces
