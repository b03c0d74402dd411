"""IP addresses and CIDR blocks in fields: whether they are well-formed, and where one may not point."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.schema import Cause

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_BAD_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_BAD_NETWORK: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS: Final = "must not have leading 0s"
_MAPPED: Final = "an IPv4-mapped IPv6 address"
_STRAY_BITS: Final = "must not have bits set beyond the prefix length"
_ZEROS: Final = re.compile(r"\b0+(?=\d)")
_LOCAL_GROUPS: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def validate_address(text: str, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the text of an address."""
    if problem := address_error(text):
        yield causes.invalid(field, text, problem)


def validate_reachable(text: str, field: str) -> Iterator[Cause]:
    """Yield what is wrong with an address that others shall send to."""
    if problem := address_error(text) or unreachable_error(ipaddress.ip_address(text)):
        yield causes.invalid(field, text, problem)


def validate_network(text: str, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the text of a block."""
    if problem := network_error(text):
        yield causes.invalid(field, text, problem)


def address_error(text: str) -> str:
    """Return what is wrong with the text of an address, or nothing."""
    plain = _without_zeros(text)
    address = read_address(plain)
    if address is None:
        return _BAD_ADDRESS
    if plain != text:
        return _LEADING_ZEROS
    return f"must not be {_MAPPED}" if _is_mapped(address) else ""


def network_error(text: str) -> str:
    """Return what is wrong with the text of a block, or nothing."""
    plain = _without_zeros(text)
    network = read_network(plain)
    if network is None:
        return _BAD_NETWORK
    if plain != text:
        return f"{_LEADING_ZEROS} in IP or prefix length"
    if _is_mapped(network.network_address):
        return f"must not have {_MAPPED}"
    return "" if read_address(text.partition("/")[0]) == network.network_address else _STRAY_BITS


def unreachable_error(address: Address) -> str:
    """Return why nobody outside can send to an address, or nothing."""
    if address.is_unspecified:
        return f"may not be unspecified ({address})"
    if address.is_loopback:
        return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if any(address in group for group in _LOCAL_GROUPS):
        return "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    return ""


def read_address(text: str) -> Address | None:
    """Return the address, or None for other texts. Zones are no part of one."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def read_network(text: str) -> Network | None:
    """Return the block, or None for other texts; bits beyond its prefix are ignored."""
    prefix = text.partition("/")[2]
    try:
        return ipaddress.ip_network(text, strict=False) if prefix.isdigit() and prefix.isascii() else None
    except ValueError:
        return None


def _without_zeros(text: str) -> str:
    return text if ":" in text else _ZEROS.sub("", text)


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
