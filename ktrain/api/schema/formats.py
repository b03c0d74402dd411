"""The string formats that the API server checks; all others are ignored."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import date, datetime
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION: Final = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w))+)", re.ASCII)
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?", re.ASCII)
_EMAIL: Final = re.compile(r"[^@\s<>]+@[^@\s<>]+", re.ASCII)
_HEX: Final = "[0-9A-Fa-f]"
_UUID: Final = rf"{_HEX}{{8}}-?{_HEX}{{4}}-?%s{_HEX}{{3}}-?%s{_HEX}{{3}}-?{_HEX}{{12}}"
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.fullmatch(text) is not None


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    # Python reads at most six digits of a second; the calendar is all that is left to check.
    return _parses(datetime.fromisoformat, text[:19].upper())


def _base64(text: str) -> bool:
    if not text:
        return False
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _uri(text: str) -> bool:
    return not re.search(r"\s", text) and _parses(urlsplit, text) and _ABSOLUTE.match(text) is not None


def _long_name(text: str) -> bool:
    return len(text) <= 253 and re.fullmatch(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*", text) is not None


def _pattern(pattern: str) -> Callable[[str], bool]:
    return partial(_matches, re.compile(pattern, re.ASCII))


CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _pattern(rf"{_HEX}{{24}}"),
    "byte": _base64,
    "cidr": lambda text: "/" in text and _parses(partial(ip_network, strict=False), text),
    "date": lambda text: len(text) == 10 and _parses(date.fromisoformat, text),
    "date-time": _date_time,
    "duration": partial(_matches, _DURATION),
    "email": partial(_matches, _EMAIL),
    "hexcolor": _pattern(rf"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": lambda text: len(text) <= 255 and _matches(_HOSTNAME, text),
    "ipv4": partial(_parses, IPv4Address),
    "ipv6": partial(_parses, IPv6Address),
    "k8s-long-name": _long_name,
    "k8s-short-name": _pattern(_DNS_LABEL),
    "mac": _pattern(rf"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}"),
    "rgbcolor": _pattern(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)"),
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _uri,
    "uuid": _pattern(_UUID % (_HEX, _HEX)),
    "uuid3": _pattern(_UUID % ("3", _HEX)),
    "uuid4": _pattern(_UUID % ("4", "[89abAB]")),
    "uuid5": _pattern(_UUID % ("5", "[89abAB]")),
}
"""Format name to predicate. `password` accepts everything and is not listed; neither are isbn and creditcard."""
