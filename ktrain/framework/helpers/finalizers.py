"""
Finalizers: what keeps an object from going until somebody has cleaned up after it.

The list belongs to many. A merge patch would write all of it, and with it undo what another has done meanwhile; so
these are JSON patches that test first what they are about to change, and that the object is still the same one. A test
that fails means that somebody was faster: the object is read again, from the API server, and the patch made anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.api.core import untyped
from ktrain.framework.client.codec import metadata_of
from ktrain.framework.client.options import PatchType
from ktrain.framework.errors import Conflict, Invalid, NotFound, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Json, JsonValue, ObjectMeta, Resource
    from ktrain.framework.client.client import Client

ATTEMPTS: Final = 5
_PATH: Final = "/metadata/finalizers"


def has_finalizer(obj: object, finalizer: str) -> bool:
    """Whether an object, typed or a dict, has this finalizer."""
    return finalizer in metadata_of(obj).finalizers


async def add_finalizer(client: Client, resource: Resource[Any], obj: object, finalizer: str) -> bool:
    """
    Have an object, as read from a cache or the API server, wait for `finalizer`; tell whether that changed anything.

    Do it before anything is made that must be cleaned up.

    Raises:
        NotFound: It is gone; so it is if another object has its name now.
        Invalid: It is being deleted already, so that nothing can be added any more.
        Conflict: Others changed the list again and again.
    """

    def add(meta: ObjectMeta) -> list[Json]:
        if finalizer in meta.finalizers:
            return []
        if not meta.finalizers:
            # An absent list is null to a test, but has no end to add to.
            return [_test("", None), _operation("add", "", [finalizer])]
        return [_test("", [*meta.finalizers]), _operation("add", "/-", finalizer)]

    return await _edit(client, resource, obj, add)


async def remove_finalizer(client: Client, resource: Resource[Any], obj: object, finalizer: str) -> bool:
    """
    Let an object go as far as `finalizer` is concerned; tell whether that changed anything.

    An object that is gone has no finalizer: False.

    Raises:
        Conflict: Others changed the list again and again.
    """

    def remove(meta: ObjectMeta) -> list[Json]:
        if finalizer not in meta.finalizers:
            return []
        at = f"/{meta.finalizers.index(finalizer)}"
        return [_test(at, finalizer), {"op": "remove", "path": _PATH + at}]

    try:
        return await _edit(client, resource, obj, remove)
    except NotFound:
        return False


async def _edit(client: Client, resource: Resource[Any], obj: object, edit: Callable[[ObjectMeta], list[Json]]) -> bool:
    meta = metadata_of(obj)
    anything, key, uid = untyped(resource), meta.key, meta.uid
    refusal: Invalid | None = None
    for _ in range(ATTEMPTS):
        operations = edit(meta)
        if not operations:
            return False
        same_object: Json = {"op": "test", "path": "/metadata/uid", "value": uid}
        try:
            await client.patch(anything, key, [same_object, *operations], type=PatchType.JSON)
        except Invalid as error:
            refusal = error
        else:
            return True
        latest: Json = await client.get(anything, key.name, key.namespace)
        found = metadata_of(latest)
        if found.uid != uid:
            gone = Status(reason="NotFound", code=404, message=f"{resource.kind} {key} of uid {uid} is gone")
            raise NotFound(gone, method=refusal.method, path=refusal.path) from refusal
        if found.finalizers == meta.finalizers:
            raise refusal  # no test has failed: it was refused for another reason
        meta = found
    message = f"others changed the finalizers of {resource.kind} {key} {ATTEMPTS} times meanwhile"
    raise Conflict(Status(reason="Conflict", code=409, message=message), path=anything.path(*key)) from refusal


def _test(at: str, value: JsonValue) -> Json:
    return _operation("test", at, value)


def _operation(op: str, at: str, value: JsonValue) -> Json:
    return {"op": op, "path": _PATH + at, "value": value}
