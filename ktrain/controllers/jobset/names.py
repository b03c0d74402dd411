"""Rules for names and labels, in the words of the API machinery (`k8s.io/apimachinery/pkg/util/validation`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253

_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_1123: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_VALUE: Final = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def dns_label_errors(value: str, *, too_long: str = f"must be no more than {MAX_LABEL} characters") -> Iterator[str]:
    """What keeps a value from being a DNS-1035 label; `too_long` is the caller's word for excess length."""
    if len(value) > MAX_LABEL:
        yield too_long
    if not re.fullmatch(_LABEL_1035, value):
        yield (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
            " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
            f" validation is '{_LABEL_1035}')"
        )


def dns_subdomain_errors(value: str) -> Iterator[str]:
    """What keeps a value from being a DNS-1123 subdomain."""
    if len(value) > _MAX_SUBDOMAIN:
        yield f"must be no more than {_MAX_SUBDOMAIN} characters"
    if not re.fullmatch(_SUBDOMAIN_1123, value):
        yield (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
            " start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
            f" '{_SUBDOMAIN_1123}')"
        )


def label_value_errors(value: str) -> Iterator[str]:
    """What keeps a value from being the value of a label."""
    if len(value) > MAX_LABEL:
        yield f"must be no more than {MAX_LABEL} bytes"
    if not re.fullmatch(_LABEL_VALUE, value):
        yield (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
            " start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used"
            f" for validation is '{_LABEL_VALUE}')"
        )


def domain_path_errors(value: str) -> Iterator[tuple[str, str]]:
    """What keeps a value from being a path like `acme.io/foo`: the part that is wrong, and why."""
    host, slash, path = value.partition("/")
    if not (host and slash and path):
        yield value, 'must be a domain-prefixed path (such as "acme.io/foo")'
        return
    yield from ((host, error) for error in dns_subdomain_errors(host))
    if not re.fullmatch(_HTTP_PATH, path):
        yield path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"
