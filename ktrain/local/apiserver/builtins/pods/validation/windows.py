"""Windows options of security contexts, in the API server's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes, names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_MAX_SPEC: Final = 64 * 1024
_MAX_DOMAIN: Final = 256
_MAX_USER: Final = 104
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS: Final = re.compile(
    r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)
_DENIED: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def validate_windows(options: Json, field: str) -> Iterator[Cause]:
    """Yield what is wrong with the Windows options of a container or a pod."""
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        for text in names.subdomain(name):
            yield causes.invalid(f"{field}.gmsaCredentialSpecName", name, text)
    if (spec := options.get("gmsaCredentialSpec")) is not None:
        if not spec:
            yield causes.invalid(f"{field}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string")
        elif len(spec.encode()) > _MAX_SPEC:
            yield causes.invalid(f"{field}.gmsaCredentialSpec", spec, "gmsaCredentialSpec size must be under 64 KiB")
    if (user := options.get("runAsUserName")) is not None:
        for text in _user_errors(user):
            yield causes.invalid(f"{field}.runAsUserName", user, f"runAsUserName{text}")


def _user_errors(name: str) -> Iterator[str]:
    """Yield the complaints about `[DOMAIN\\]USER`, each after the name of the field."""
    if not name:
        yield " cannot be an empty string"
    elif _CONTROL.search(name):
        yield " cannot contain control characters"
    elif name.count("\\") > 1:
        yield " cannot contain more than one backslash"
    else:
        domain, backslash, user = name.rpartition("\\")
        if len(domain.encode()) >= _MAX_DOMAIN:
            yield f"'s Domain length must be under {_MAX_DOMAIN} characters"
        if backslash and not (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user.encode()) > _MAX_USER:
            yield f"'s User length must not be longer than {_MAX_USER} characters"
        if user and not user.strip(". "):
            yield "'s User cannot contain only periods or spaces"
        if _DENIED.search(user):
            yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
