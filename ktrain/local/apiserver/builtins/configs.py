"""ConfigMaps and Secrets: keys, sizes, and `immutable`."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause

_SECRET_KEYS: Final = {
    "kubernetes.io/basic-auth": ("username", "password"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_KEYS: Final = frozenset({".dockercfg", ".dockerconfigjson"})
_ACCOUNT_ANNOTATION: Final = "kubernetes.io/service-account.name"
_PEM: Final = b"-----BEGIN "
_PLACE: Final = re.compile(r"\(byte (\d+)\)")
_GO_NAMES: Final[dict[type, str]] = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}
_SIZE_LIMIT: Final = 1024 * 1024
_FROZEN: Final = "field is immutable when `immutable` is set"


class ConfigMapStrategy(Strategy):
    """ConfigMaps."""

    has_generation = False
    fields: tuple[str, ...] = ("data", "binaryData")
    sized = "[]"
    """The field that is too long: upstream's text for all of an object."""

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check keys and the size of all values together."""
        found = [cause for field in self.fields for cause in _validate_keys(obj.get(field, {}), field)]
        doubled = obj.get("data", {}).keys() & obj.get("binaryData", {}).keys()
        found += [
            causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in sorted(doubled)
        ]
        if self.size(obj) > _SIZE_LIMIT:
            found.append(causes.too_long(self.sized, _SIZE_LIMIT))
        return found

    def size(self, obj: Json) -> int:
        """Return how many bytes it holds."""
        texts = sum(len(text.encode()) for text in obj.get("data", {}).values())
        return texts + _decoded_size(obj.get("binaryData", {}))

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """An immutable one keeps its data, and stays immutable."""
        if not old.get("immutable"):
            return ()
        found = [] if obj.get("immutable") else [causes.forbidden("immutable", _FROZEN)]
        return found + [causes.forbidden(f, _FROZEN) for f in self.fields if obj.get(f, {}) != old.get(f, {})]


class SecretStrategy(ConfigMapStrategy):
    """Secrets: like ConfigMaps, in base64, with a type."""

    fields: tuple[str, ...] = ("data",)
    sized = "data"

    def default(self, obj: Json) -> None:
        """Fold the write-only stringData into data."""
        obj.setdefault("type", "Opaque")
        for key, text in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check keys and size, and that what the type promises is there."""
        return [*super().validate(obj), *_validate_secret_type(obj)]

    def size(self, obj: Json) -> int:
        """Return how many bytes it holds."""
        return _decoded_size(obj.get("data", {}))

    def warn(self, obj: Json) -> Sequence[str]:
        """Say that a certificate is none; clients will find out otherwise."""
        data = obj.get("data", {})
        if obj.get("type") == "kubernetes.io/tls":
            for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
                if _PEM not in _decoded(data.get(key, "")):
                    return [f"tls: failed to find any PEM data in {what} input"]
        return ()

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """The type stays."""
        found = list(super().validate_update(obj, old))
        if obj.get("type") != old.get("type"):
            found.append(causes.invalid("type", obj.get("type"), causes.IMMUTABLE))
        return found


def _validate_secret_type(secret: Json) -> Iterator[Cause]:
    kind, data = secret.get("type", ""), secret.get("data", {})
    needed = _SECRET_KEYS.get(kind, ())
    # A password alone or a user alone is enough.
    if kind == "kubernetes.io/basic-auth" and data.keys() & set(needed):
        return
    for key in needed:
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            yield causes.required(f"data[{key}]")
        elif key in _JSON_KEYS and (problem := _json_error(_decoded(data[key]))):
            yield causes.invalid(f"data[{key}]", "<secret contents redacted>", problem)
    if kind == "kubernetes.io/service-account-token":
        annotations = secret["metadata"].get("annotations", {})
        if not annotations.get(_ACCOUNT_ANNOTATION):
            yield causes.required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]")


def _json_error(text: bytes) -> str:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        place = _PLACE.search(str(error))
        if place is None:
            return "unexpected end of JSON input"
        shown = chr(text[min(int(place[1]), len(text) - 1)])
        return f"invalid character '{shown}' looking for beginning of value"
    kind = _GO_NAMES.get(type(value))
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}" if kind else ""


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def _decoded_size(data: Json) -> int:
    """Return the size of values in base64, without decoding them."""
    return sum(len(text) // 4 * 3 - text[-2:].count("=") for text in data.values())


def _validate_keys(data: Json, field: str) -> Iterator[Cause]:
    for key in data:
        for text in names.config_key(key):
            yield causes.invalid(f"{field}[{key}]", key, text)
