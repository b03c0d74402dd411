"""
The variables that an initializer knows, and a sentence about each one that changes nothing.

A variable that is misspelled, meant for another kind of source or known from elsewhere would otherwise be ignored
without a word, and the user would look for the fault in the data.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_EACH: Final = frozenset({"STORAGE_URI", "IGNORE_PATTERNS", "TARGET_DIR", "CONCURRENCY"})
_OF_SCHEME: Final = {
    "hf": frozenset({"ACCESS_TOKEN"}),
    "s3": frozenset({"ENDPOINT", "ENDPOINT_URL", "REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ROLE_ARN"}),
}
_KNOWN: Final = sorted(_EACH.union(*_OF_SCHEME.values()))
_FETCHED_AS_IS: Final = (
    "the initializer copies files and loads no model; set it for the trainer, whose program reads it"
)
_ELSEWHERE: Final = {"TRANSFORMER_TYPE": _FETCHED_AS_IS, "LORA_CONFIG": _FETCHED_AS_IS}
"""Variables of KEP-2170's model initializer and trainer."""
_LIBRARIES: Final = ("AWS_", "HF_", "BOTO_")
"""Prefixes of variables that the libraries read themselves."""
_ALIKE: Final = 0.85
"""`ENDPOINT_URI` is 0.92 of `ENDPOINT_URL`; an image's own variables should not come near."""


def unused(environ: Mapping[str, str], scheme: str) -> dict[str, str]:
    """Return the variables of *environ* that change nothing for a URI of *scheme*, each with the reason."""
    found = {}
    for name in sorted(name for name, value in environ.items() if value):
        reason = _reason(name, scheme)
        if reason:
            found[name] = reason
    return found


def _reason(name: str, scheme: str) -> str:
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    for other, names in _OF_SCHEME.items():
        if name in names and other != scheme:
            hub = "; HF_ENDPOINT names another Hub" if name.startswith("ENDPOINT") else ""
            return f"only {other}:// URIs use it, and STORAGE_URI is {scheme}://...{hub}"
    if name in _KNOWN or name.startswith(_LIBRARIES):
        return ""
    alike = get_close_matches(name.upper().replace("-", "_"), _KNOWN, 1, _ALIKE)
    return f"the initializer does not know it; is {alike[0]} meant?" if alike else ""
