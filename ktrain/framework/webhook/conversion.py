"""
Conversion of custom resources between versions (apiextensions.k8s.io ConversionReview).

One version is the hub; every other one, a spoke, has two functions: to the hub and from it. So n versions need 2(n-1)
functions, and spoke to spoke goes through the hub. Functions take a dict of their own and return a dict; they are
plain and quick, as the API server calls them for every read and list of a version that is not the stored one.

    websites = Conversion("example.com", "Website", hub="v1")
    websites.spoke("v1alpha1", to_hub=raise_to_v1, from_hub=lower_to_v1alpha1)
    server.conversion(websites)

**Nothing may be lost.** Clients of an old version write back what they read, so what that version cannot say would be
gone. Keep it in an annotation on the way down, and take it from there on the way up:

    def lower_to_v1alpha1(site: Json) -> Json:
        tls = site["spec"].pop("tls", None)                 # v1alpha1 has no such field
        return keep(site, {"tls": tls}) if tls else site

    def raise_to_v1(site: Json) -> Json:
        site["spec"] |= recall(site)                        # what was kept; the annotation goes
        return site

Metadata other than labels and annotations must stay as it is: the API server would refuse the answer, with less to say
about why. One object that cannot be converted fails its request, for the API server takes all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import msgspec
import structlog

from ktrain.api.meta import Json, Struct
from ktrain.api.patch import equal
from ktrain.framework.client.codec import UNFIT
from ktrain.framework.errors import FrameworkError

from .admission import envelope_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.metrics.registry import Add

log: FilteringBoundLogger = structlog.get_logger("ktrain.framework.webhook")

GROUP: Final = "apiextensions.k8s.io"
KIND: Final = "ConversionReview"
VERSIONS: Final = ("v1", "v1beta1")
KEPT: Final = "ktrain.framework/kept"
"""The annotation of `keep`. Annotations of one object have 256 KiB together."""
TURN: Final = 64
"""Objects converted before others have their turn on the event loop."""

Convert = Callable[[Json], Json]


class CannotConvert(FrameworkError):
    """Raised by a conversion function whose object has no form in the other version; the text is for people."""


@dataclass(frozen=True, slots=True)
class _Spoke:
    to_hub: Convert
    from_hub: Convert


class Conversion:
    """
    How one kind is converted.

    Args:
        group: Of the kind, for example `example.com`.
        kind: For example `Website`.
        hub: The version that all others are converted through, usually the stored one.
    """

    def __init__(self, group: str, kind: str, *, hub: str) -> None:
        self.group = group
        self.kind = kind
        self.hub = hub
        self._spokes: dict[str, _Spoke] = {}

    def spoke(self, version: str, *, to_hub: Convert, from_hub: Convert) -> None:
        """Add a version. Each function gets a copy that it may change, and need not touch `apiVersion`."""
        if version == self.hub or version in self._spokes:
            raise ValueError(f"{self.kind} has a version {version} already")
        self._spokes[version] = _Spoke(to_hub, from_hub)

    def convert(self, document: Json, version: str) -> Json:
        """
        Return a document of this kind in another version; one that is in it already, as it is.

        Raises:
            CannotConvert: A version is not known, or the functions changed metadata that must stay.
        """
        _, _, current = str(document.get("apiVersion", "")).rpartition("/")
        for one in (current, version):
            if one != self.hub and one not in self._spokes:
                known = ", ".join((self.hub, *self._spokes))
                raise CannotConvert(f"version {one or '?'} is not known; known are {known}")
        if current == version:
            return document
        result: Json = msgspec.json.decode(msgspec.json.encode(document))
        if current != self.hub:
            result = self._spokes[current].to_hub(result) | {"apiVersion": f"{self.group}/{self.hub}"}
        if version != self.hub:
            result = self._spokes[version].from_hub(result) | {"apiVersion": f"{self.group}/{version}"}
        _check_metadata(document, result)
        return result


def keep(document: Json, what: Mapping[str, Any]) -> Json:
    """Put values that this version cannot express into an annotation of the document; returns it."""
    metadata = document.setdefault("metadata", {})
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {**annotations, KEPT: msgspec.json.encode(what).decode()}
    return document


def recall(document: Json) -> Json:
    """Take what `keep` stored out of the document again; empty if there is nothing, or no JSON object."""
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if KEPT not in annotations:
        return {}
    rest = {name: value for name, value in annotations.items() if name != KEPT}
    metadata["annotations"] = rest
    if not rest:
        del metadata["annotations"]
    try:
        # Users can write annotations too: what is not ours is nothing.
        return msgspec.json.decode(annotations[KEPT], type=dict)
    except msgspec.MsgspecError:
        return {}


class _Request(Struct, frozen=True):
    uid: str = ""
    desired_api_version: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: tuple[Json, ...] = ()


class _Review(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


async def respond_conversion(
    conversions: Mapping[tuple[str, str], Conversion], body: bytes, *, on_panic: Add = lambda: None
) -> Json:
    """
    Answer one ConversionReview, in the version it came in; conversions are by group and kind.

    Never raises but for cancellation: what goes wrong is a result with status Failure that names the object.
    """
    try:
        review = msgspec.json.decode(body, type=_Review)
    except UNFIT as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else f"is no {KIND}: {error}"
        return failure(body, f"the request {what}")
    if review.kind != KIND or review.request is None:
        return failure(body, f"the request is no {KIND} with a request")
    request = review.request
    converted: list[Json] = []
    for n, document in enumerate(request.objects, 1):
        try:
            converted.append(_convert(conversions, document, request.desired_api_version))
        except CannotConvert as error:
            return _failed(review, document, str(error))
        except Exception as error:
            # The boundary to conversion functions: their bugs are this request's failure.
            on_panic()
            log.exception("conversion.crashed", object=_name(document), to=request.desired_api_version)
            return _failed(review, document, f"the conversion failed: {error!r}")
        if n % TURN == 0:
            await anyio.lowlevel.checkpoint()
    return _answer(review.api_version, request.uid, {"status": "Success"}, converted)


def failure(body: bytes, message: str) -> Json:
    """Refuse a request of which nothing is known but its bytes: under its UID, if it has one."""
    return _answer(*envelope_of(body), {"status": "Failure", "message": message})


def _convert(conversions: Mapping[tuple[str, str], Conversion], document: Json, api_version: str) -> Json:
    group, _, version = api_version.rpartition("/")
    kind = str(document.get("kind", ""))
    own_group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
    conversion = conversions.get((group, kind))
    if conversion is None or own_group != group:
        raise CannotConvert("nothing is registered here for this kind")
    return conversion.convert(document, version)


def _failed(review: _Review, document: Json, message: str) -> Json:
    request = review.request or _Request()
    text = f"{_name(document)} cannot be converted to {request.desired_api_version}: {message}"
    return _answer(review.api_version, request.uid, {"status": "Failure", "message": text})


def _answer(api_version: str, uid: str, result: Json, converted: Sequence[Json] = ()) -> Json:
    group, _, version = api_version.partition("/")
    known = group == GROUP and version in VERSIONS
    return {
        "apiVersion": api_version if known else f"{GROUP}/{VERSIONS[0]}",
        "kind": KIND,
        "response": {"uid": uid, "convertedObjects": list(converted), "result": result},
    }


def _name(document: Json) -> str:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    key = "/".join(str(metadata[field]) for field in ("namespace", "name") if metadata.get(field))
    return f"{document.get('kind', '?')} {key or '?'} of {document.get('apiVersion', '?')}"


def _check_metadata(before: Json, after: Json) -> None:
    old, new = (
        {k: v for k, v in (one.get("metadata") or {}).items() if k not in {"labels", "annotations"}}
        for one in (before, after)
    )
    changed = sorted(name for name in {*old, *new} if not equal(old.get(name), new.get(name)))
    if changed:
        raise CannotConvert(f"the conversion changed metadata.{', metadata.'.join(changed)}, which must stay")
    if after.get("kind") != before.get("kind"):
        raise CannotConvert(f"the conversion changed kind to {after.get('kind')}")
