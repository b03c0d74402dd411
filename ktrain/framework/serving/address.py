"""Where a server listens, as people write it: `HOST:PORT`, `:PORT` for every interface, `0` for not at all."""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(r"(\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[\w.-]+))?:(?P<port>[0-9]{1,5})")


def parse_address(text: str) -> tuple[str, int] | None:
    """
    Host and port; None for `0`. The host is empty for every interface; port 0 (`:0`) lets the system choose one.

    Raises:
        ValueError: It is neither.
    """
    if text == "0":
        return None
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, :PORT or 0 (an IPv6 address stands in brackets: [::1]:8080)")
    return match["ipv6"] or match["host"] or "", int(match["port"])
