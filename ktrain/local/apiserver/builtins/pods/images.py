"""When images are pulled unless a container says so: the grammar of references is that of `distribution/reference`."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST: Final = rf"(?:{_WORD}(?:\.{_WORD})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DIGEST: Final = r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})"
_REFERENCE: Final = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@{_DIGEST})?",
    re.ASCII,
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_MAX_PATH: Final = 255
_MAX: Final = 1024
"""No reference is longer; it bounds the work, too."""


def pull_policy(image: str) -> str:
    """Return when an image is pulled by default: always if its tag is, or stands for, the latest one."""
    match = _REFERENCE.fullmatch(image) if len(image) <= _MAX and not _IDENTIFIER.fullmatch(image) else None
    if match is None or len(_path(match["host"] or "", match["path"])) > _MAX_PATH:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _path(host: str, path: str) -> str:
    """Return the path on its registry, whose own images need no folder; a host without a dot or port is a folder."""
    if not host:
        return path if "/" in path else f"library/{path}"
    is_host = host == "localhost" or host != host.lower() or not {".", ":"}.isdisjoint(host)
    return path if is_host else f"{host}/{path}"
