"""
Answers in YAML.

They are read by YAML 1.1, where `y` and `no` are booleans: PyYAML, which takes only some of them for such, leaves a
text like that without quotes. And what is stored shares its parts, which YAML would show as anchors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    from ktrain.api.meta import JsonValue

_LETTERS: Final = frozenset("yYnN")


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are read as texts, and everything in full."""

    def ignore_aliases(self, data: JsonValue) -> bool:
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if value in _LETTERS else None)


_Dumper.add_representer(str, _text)


def dump(document: object) -> bytes:
    """Return a document as YAML."""
    text: str = yaml.dump(document, Dumper=_Dumper, default_flow_style=False, allow_unicode=True)
    return text.encode()
