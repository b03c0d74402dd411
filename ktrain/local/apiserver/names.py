"""The grammars of object names, with the API machinery's complaints about what breaks them."""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_PORT: Final = re.compile(r"[-a-z0-9]+")
_LETTER: Final = re.compile(r"[a-z]")

_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_DNS1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_CONFIG_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def label(name: str, *, prefix: bool = False) -> list[str]:
    """
    Check an RFC 1123 label: at most 63 characters. A `prefix` may end in dashes: more will follow.

    Dots that would do in a subdomain have a complaint of their own.
    """
    name = _complete(name, prefix=prefix)
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    if not _LABEL.fullmatch(name):
        found.append("must not contain dots" if _SUBDOMAIN.fullmatch(name) else _LABEL_TEXT)
    return found


def dns1035_label(name: str) -> list[str]:
    """Check an RFC 1035 label, which begins with a letter: at most 63 characters."""
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    return found if _DNS1035.fullmatch(name) else [*found, _DNS1035_TEXT]


def subdomain(name: str, *, prefix: bool = False) -> list[str]:
    """Check an RFC 1123 subdomain: at most 253 characters."""
    name = _complete(name, prefix=prefix)
    found = ["must be no more than 253 characters"] if len(name) > 253 else []
    return found if _SUBDOMAIN.fullmatch(name) else [*found, _SUBDOMAIN_TEXT]


def port(name: str) -> list[str]:
    """Check the name of a port, an IANA service name: at most 15 characters, one of them a letter."""
    found = ["must be no more than 15 characters"] if len(name) > 15 else []
    if not _PORT.fullmatch(name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def config_key(key: str) -> list[str]:
    """Check a key of a ConfigMap or Secret, which may become a file: at most 253 characters."""
    found = ["must be no more than 253 characters"] if len(key) > 253 else []
    if not _CONFIG_KEY.fullmatch(key):
        found.append(_CONFIG_KEY_TEXT)
    if key in {".", ".."}:
        found.append(f"must not be '{key}'")
    elif key.startswith(".."):
        found.append("must not start with '..'")
    return found


def descending_path(path: str) -> list[str]:
    """Check a path inside something else; none at all is fine."""
    found = ["must be a relative path"] if path.startswith("/") else []
    return [*found, "must not contain '..'"] if ".." in path.split("/") else found


def path_segment(name: str, *, prefix: bool = False) -> list[str]:
    """Check a name that only has to fit into a URL, as RBAC's do."""
    if not prefix and name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def _complete(name: str, *, prefix: bool) -> str:
    # A dash alone is nothing to complete.
    return name[:-2] + "a" if prefix and len(name) > 1 and name.endswith("-") else name
