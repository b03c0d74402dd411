"""Where a server listens, as people write it: `HOST:PORT`, `:PORT` for every interface, `0` for not at all."""

from __future__ import annotations


def parse_address(text: str) -> tuple[str, int] | None:
    """
    Host and port; None for `0`. The host is empty for every interface; port 0 (`:0`) lets the system choose one.

    Raises:
        ValueError: It is neither.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, :PORT or 0")
    return host.strip("[]"), int(port)
