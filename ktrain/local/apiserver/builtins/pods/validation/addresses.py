"""IP addresses in the fields of pods, in the API server's words."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.schema import Cause

_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")
_TEXT: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def validate_address(address: str, field: str) -> Iterator[Cause]:
    """Yield what is wrong with an address; what programs read in different ways is named as that."""
    if (plain := read_address(address)) is not None:
        if isinstance(plain, ipaddress.IPv6Address) and plain.ipv4_mapped:
            yield causes.invalid(field, address, "must not be an IPv4-mapped IPv6 address")
    elif ":" not in address and read_address(_ZEROS.sub("", address)) is not None:
        yield causes.invalid(field, address, "must not have leading 0s")
    else:
        yield causes.invalid(field, address, _TEXT)


def read_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, None if it is none; one of a zone of one host is none here."""
    try:
        return None if "%" in address else ipaddress.ip_address(address)
    except ValueError:
        return None
