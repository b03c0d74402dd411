"""Kubernetes' own types in CEL: quantities, URLs, addresses, versions, named formats, and asking the authoriser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from ...quantity import NO_QUANTITY, parse
from ..formats import CHECKS
from .errors import CelError
from .library import function
from .values import KINDS, NONE, Optional, Value

if TYPE_CHECKING:
    from collections.abc import Callable

_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
_FORMATS: Final = {
    "byte": "byte",
    "date": "date",
    "datetime": "date-time",
    "dns1035Label": "k8s-short-name",
    "dns1123Label": "k8s-short-name",
    "dns1123Subdomain": "k8s-long-name",
    "uri": "uri",
    "uuid": "uuid",
}


class Quantity(Fraction):
    """An amount, such as `1500m` or `2Gi`."""

    __slots__ = ()


class Url(SplitResult):
    """An absolute URI, or an absolute path."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class SemVer:
    """A semantic version. Ordered as its specification says: a pre-release comes before its release."""

    release: tuple[int, int, int]
    is_release: bool
    pre: tuple[tuple[bool, int, str], ...]


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format that strings can be checked against."""

    name: str


KINDS.update(
    {
        Quantity: "quantity",
        Url: "url",
        IPv4Address: "net.ip",
        IPv6Address: "net.ip",
        IPv4Network: "net.cidr",
        IPv6Network: "net.cidr",
        SemVer: "semver",
        NamedFormat: "NamedFormat",
    }
)


def _is(read: Callable[..., object]) -> Callable[..., bool]:
    def check(*args: Value) -> bool:
        try:
            read(*args)
        except CelError:
            return False
        return True

    return check


@function("quantity(string) -> quantity")
def _quantity(text: str) -> Quantity:
    try:
        return Quantity(parse(text))
    except ValueError as error:
        raise CelError(NO_QUANTITY) from error


function("isQuantity(string) -> bool")(_is(_quantity))
function("quantity.isGreaterThan(quantity) -> bool")(lambda a, b: a > b)
function("quantity.isLessThan(quantity) -> bool")(lambda a, b: a < b)
function("quantity.compareTo(quantity) -> int")(lambda a, b: (a > b) - (a < b))
function("quantity.add(quantity) -> quantity", "quantity.add(int) -> quantity")(lambda a, b: Quantity(a + b))
function("quantity.sub(quantity) -> quantity", "quantity.sub(int) -> quantity")(lambda a, b: Quantity(a - b))
function("quantity.sign() -> int")(lambda a: (a > 0) - (a < 0))
function("quantity.isInteger() -> bool")(lambda a: a.denominator == 1 and abs(a) < 2**63)
function("quantity.asApproximateFloat() -> double")(float)


@function("quantity.asInteger() -> int")
def _as_integer(amount: Quantity) -> int:
    if amount.denominator != 1 or abs(amount) >= 2**63:
        raise CelError("cannot convert value to integer")
    return int(amount)


@function("url(string) -> url")
def _url(text: str) -> Url:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise CelError(f'URL parse error during conversion from string: parse "{text}": {error}') from error
    if re.search(r"\s", text) or not (parts.scheme or text.startswith("/")):
        raise CelError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return Url(*parts)


function("isURL(string) -> bool")(_is(_url))
function("url.getScheme() -> string")(lambda url: url.scheme)
function("url.getHost() -> string")(lambda url: url.netloc.rpartition("@")[2])
function("url.getHostname() -> string")(lambda url: url.hostname or "")
function("url.getPort() -> string")(lambda url: "" if url.port is None else str(url.port))
function("url.getEscapedPath() -> string")(lambda url: url.path)
function("url.getQuery() -> map<string, list<string>>")(lambda url: parse_qs(url.query, keep_blank_values=True))


@function("ip(string) -> net.ip")
def _ip(text: str) -> IPv4Address | IPv6Address:
    try:
        address = ip_address(text)
    except ValueError as error:
        raise CelError(f"IP Address {_quoted(text)} parse error during conversion from string: {error}") from error
    if isinstance(address, IPv6Address) and (address.scope_id or address.ipv4_mapped):
        raise CelError(
            f"IPv4-mapped IPv6 address {_quoted(text)} is not allowed"
            if address.ipv4_mapped
            else f"IP address {_quoted(text)} with zone value is not allowed"
        )
    return address


@function("cidr(string) -> net.cidr")
def _cidr(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text if "/" in text else "no prefix", strict=False)
    except ValueError as error:
        raise CelError(
            f"network address parse error during conversion from string: netip.ParsePrefix({_quoted(text)}): {error}"
        ) from error


def _quoted(text: str) -> str:
    return f'"{text}"'


function("isIP(string) -> bool")(_is(_ip))
function("isCIDR(string) -> bool")(_is(_cidr))
function("ip.isCanonical(string) -> bool")(lambda text: str(_ip(text)) == text)
function("net.ip.family() -> int")(lambda ip: ip.version)
function("net.ip.isUnspecified() -> bool")(lambda ip: ip.is_unspecified)
function("net.ip.isLoopback() -> bool")(lambda ip: ip.is_loopback)
function("net.ip.isLinkLocalMulticast() -> bool")(
    lambda ip: ip in ip_network("224.0.0.0/24" if ip.version == 4 else "ff02::/16")
)
function("net.ip.isLinkLocalUnicast() -> bool")(lambda ip: ip.is_link_local)
function("net.ip.isGlobalUnicast() -> bool")(
    lambda ip: not (ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local)
)
function("string(net.ip) -> string", "string(net.cidr) -> string")(str)
function("net.cidr.containsIP(net.ip) -> bool", "net.cidr.containsIP(string) -> bool")(
    lambda cidr, ip: (_ip(ip) if isinstance(ip, str) else ip) in cidr
)
function("net.cidr.containsCIDR(net.cidr) -> bool", "net.cidr.containsCIDR(string) -> bool")(
    lambda cidr, other: _inside(_cidr(other) if isinstance(other, str) else other, cidr)
)
function("net.cidr.ip() -> net.ip")(lambda cidr: cidr.network_address)
function("net.cidr.masked() -> net.cidr")(lambda cidr: cidr)
function("net.cidr.prefixLength() -> int")(lambda cidr: cidr.prefixlen)


def _inside(inner: IPv4Network | IPv6Network, outer: IPv4Network | IPv6Network) -> bool:
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)


@function("semver(string) -> semver", "semver(string, bool) -> semver")
def _semver(text: str, normalize: bool = False) -> SemVer:  # noqa: FBT001, FBT002 - CEL's signature
    if normalize:
        text = text.removeprefix("v")
        core, mark, rest = text.partition("-")
        parts = [str(int(one)) if one.isdigit() and len(one) < 20 else one for one in core.split(".")]
        text = ".".join([*parts, "0", "0"][: max(3, len(parts))]) + mark + rest
    match = _SEMVER.fullmatch(text) if len(text) < 256 else None
    if match is None:
        raise CelError(
            "No Major.Minor.Patch elements found"
            if text.count(".") < 2
            else f"Invalid character(s) found in version {_quoted(text)}"
        )
    major, minor, patch, pre = match.groups()
    parts = pre.split(".") if pre else []
    order = tuple((not one.isdigit(), int(one) if one.isdigit() else 0, one) for one in parts)
    return SemVer((int(major), int(minor), int(patch)), not pre, order)


function("isSemver(string) -> bool", "isSemver(string, bool) -> bool")(_is(_semver))
function("semver.major() -> int")(lambda version: version.release[0])
function("semver.minor() -> int")(lambda version: version.release[1])
function("semver.patch() -> int")(lambda version: version.release[2])
function("semver.isLessThan(semver) -> bool")(lambda a, b: a < b)
function("semver.isGreaterThan(semver) -> bool")(lambda a, b: a > b)
function("semver.compareTo(semver) -> int")(lambda a, b: (a > b) - (a < b))


@function("format.named(string) -> optional<NamedFormat>")
def _named(name: str) -> Optional:
    return Optional(NamedFormat(name), present=True) if name in _FORMATS else NONE


for _name in _FORMATS:
    function(f"format.{_name}() -> NamedFormat")(lambda name=_name: NamedFormat(name))


@function("NamedFormat.validate(string) -> optional<list<string>>")
def _validate(named: NamedFormat, text: str) -> Optional:
    if CHECKS[_FORMATS[named.name]](text):
        return NONE
    return Optional([f"must be a valid {named.name}"], present=True)
