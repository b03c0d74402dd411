"""
Custom resources between the versions of their kind, by webhook.

Without a webhook only apiVersion differs, and `views` writes that. With one, objects are stored in the storage version
and converted for each version that readers ask for. What was converted once is remembered, for a watch and a list of
the same object cost one call; memory is bounded by the number of objects remembered.

Metadata other than labels and annotations is the server's: a webhook cannot change it.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.local.apiserver import metadata
from ktrain.local.apiserver.admission.callouts import CallFailed, Callouts
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.storage.store import Item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.framework.env import Env
    from ktrain.local.apiserver.registry import Registry, ServedResource

LIMIT_S: Final = 30.0
MAX_OBJECTS: Final = 250
"""Objects in one review. Upstream asks for whole lists at once, and so for any number."""
_REMEMBERED: Final = 4096
_GROUP: Final = "apiextensions.k8s.io"
_KNOWN: Final = ("v1", "v1beta1")
_SAME: Final = (("kind", "kind"), ("name", "name"), ("namespace", "namespace"), ("uid", "UID"))


class _Result(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    result: _Result = _Result()
    converted_objects: list[Any] | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _Response | None = None


class Conversions:
    """Converts objects of one server, and remembers the results."""

    def __init__(self, callouts: Callouts, registry: Registry, env: Env) -> None:
        self._callouts = callouts
        self._registry = registry
        self._env = env
        self._known: OrderedDict[tuple[int, str], tuple[Item, ServedResource, Item]] = OrderedDict()

    async def item(self, resource: ServedResource, item: Item) -> Item:
        """
        Return a stored item as this version shows it.

        Raises:
            StatusError: The webhook failed.
        """
        if resource.conversion is None:
            return item
        return (await self.items(resource, [item]))[0]

    async def items(self, resource: ServedResource, items: Sequence[Item]) -> list[Item]:
        """
        The same for many, with few calls.

        Raises:
            StatusError: The webhook failed.
        """
        if resource.conversion is None:
            return list(items)
        shown = [self._remembered(resource, item) for item in items]
        missing = [index for index, one in enumerate(shown) if one is None]
        for start in range(0, len(missing), MAX_OBJECTS):
            chunk = missing[start : start + MAX_OBJECTS]
            objects = await self.objects(resource, [items[index].obj for index in chunk])
            for index, obj in zip(chunk, objects, strict=True):
                shown[index] = self._remember(resource, items[index], _fitted(resource, obj))
        return [one for one in shown if one is not None]

    async def stored(self, resource: ServedResource, obj: Json) -> tuple[Json, object]:
        """
        Return the form in which an object of this version is stored, and the schema that it fits.

        Raises:
            StatusError: The webhook failed.
        """
        if resource.conversion is None or resource.version == resource.storage_version:
            return obj, resource.schema
        (converted,) = await self.objects(resource, [obj], f"{resource.group}/{resource.storage_version}")
        return converted, None

    async def objects(self, resource: ServedResource, objects: list[Json], wanted: str = "") -> list[Json]:
        """
        Convert objects to the version of a resource, or to another one of it.

        Raises:
            StatusError: The webhook failed.
        """
        wanted = wanted or resource.api_version
        foreign = [obj for obj in objects if obj["apiVersion"] != wanted]
        # A watch may be older than the certificate that the webhook has now.
        newest = self._registry.find(resource.group, resource.version, resource.plural)
        webhook = (newest or resource).conversion
        if not foreign or webhook is None:
            return [{**obj, "apiVersion": wanted} for obj in objects]
        converted = iter(await self._ask(webhook, foreign, wanted))
        return [obj if obj["apiVersion"] == wanted else next(converted) for obj in objects]

    async def _ask(self, webhook: Json, objects: list[Json], wanted: str) -> list[Json]:
        about = f"conversion webhook for {objects[0]['apiVersion']}, Kind={objects[0]['kind']}"
        offered = webhook.get("conversionReviewVersions") or _KNOWN[:1]
        version = next((one for one in offered if one in _KNOWN), _KNOWN[0])
        head = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{version}"}
        uid = str(uuid.UUID(int=self._env.random.getrandbits(128), version=4))
        body = {"uid": uid, "desiredAPIVersion": wanted, "objects": objects}
        try:
            answer = await self._callouts.post(webhook["clientConfig"], {**head, "request": body}, LIMIT_S)
            review = msgspec.json.decode(answer, type=_Answer | None)
        except (CallFailed, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise _failed(f"{about} failed: {error}") from error
        found = _converted(review, head, uid, about)
        if len(found) != len(objects):
            raise _failed(f"{about} returned {len(found)} objects, expected {len(objects)}")
        return [_restored(old, new, wanted, about) for old, new in zip(objects, found, strict=True)]

    def _remembered(self, resource: ServedResource, item: Item) -> Item | None:
        if item.schema is resource.schema and item.obj["apiVersion"] == resource.api_version:
            return item
        known = self._known.get((id(item), resource.version))
        # The item that is held keeps its identity from being taken by another.
        return known[2] if known is not None and known[0] is item and known[1] is resource else None

    def _remember(self, resource: ServedResource, item: Item, obj: Json) -> Item:
        shown = Item(obj, item.revision, resource.schema)
        self._known[id(item), resource.version] = (item, resource, shown)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return shown


def _fitted(resource: ServedResource, obj: Json) -> Json:
    return resource.schema.default(resource.schema.prune(obj)[0])


def _converted(review: _Answer | None, head: Json, uid: str, about: str) -> list[Any]:
    """
    Return the objects of an answer that is one.

    Raises:
        StatusError: It is none, or says why it could not be done.
    """
    if review is None or review.response is None:
        raise _failed(f"{about} failed: no response provided")
    response = review.response
    if (review.kind, review.api_version) != (head["kind"], head["apiVersion"]):
        found = f"{review.api_version or '/'}, Kind={review.kind}"
        expected = f"{head['apiVersion']}, Kind={head['kind']}"
        raise _failed(f"{about} failed: expected webhook response of {expected}, got {found}")
    if response.uid != uid:
        raise _failed(f'{about} failed: expected response.uid="{uid}", got "{response.uid}"')
    if response.result.status != "Success":
        why = response.result.message or f"response.result.status was '{response.result.status}', not 'Success'"
        raise _failed(f"{about} failed: {why}")
    return response.converted_objects or []


def _restored(old: Json, new: object, wanted: str, about: str) -> Json:
    """
    Return a converted object with the metadata that is not the webhook's.

    Raises:
        StatusError: It is another object.
    """
    invalid = f"{about} returned invalid"
    if not isinstance(new, dict):
        raise _failed(f"{invalid} object: it is no JSON object")
    if new.get("apiVersion") != wanted:
        received = new.get("apiVersion", "")
        text = f"invalid groupVersion (expected {wanted}, received {received})"
        raise _failed(f"{invalid} object at index 0: {text}")
    meta = new.get("metadata")
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        raise _failed(f"{invalid} metadata: invalid metadata of type {type(meta).__name__} in converted object")
    for name, shown in _SAME:
        expected, found = (old, new) if name == "kind" else (old["metadata"], meta)
        if expected.get(name) != found.get(name):
            text = f"must have the same {shown}: {expected.get(name, '')} != {found.get(name, '')}"
            raise _failed(f"{invalid} object: {text}")
    own = {name: meta[name] for name in ("labels", "annotations") if meta.get(name)}
    if problem := metadata.shape_error(own):
        raise _failed(f"{invalid} metadata: {problem}")
    kept = {name: value for name, value in old["metadata"].items() if name not in {"labels", "annotations"}}
    return {**new, "metadata": {**kept, **own}}


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message)
