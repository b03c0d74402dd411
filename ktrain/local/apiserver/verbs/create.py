"""POST: a new object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver.errors import PageNotFound, method_not_allowed
from ktrain.local.apiserver.numbers import NumberError, parse_unsigned
from ktrain.local.apiserver.requests import WriteOptions, write_options
from ktrain.local.apiserver.verbs import accepting, writing
from ktrain.local.apiserver.verbs.writing import Written

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.storage.store import Item


async def create(backend: Backend, call: Call) -> Written:
    """
    Create the object in the request's body.

    Raises:
        StatusError: Refused.
        PageNotFound: A custom resource's all-namespaces URL takes no POST.
    """
    resource = call.resource
    if resource.namespaced and not call.namespace:
        raise PageNotFound if resource.custom else method_not_allowed("create", resource)
    options = write_options("CreateOptions", call.request, call.parameters)
    obj = accepting.read_object(call, options.validation)
    has_version = _has_version(obj)
    return Written(await create_object(backend, call, obj, options, has_version=has_version), created=True)


def _has_version(obj: Json) -> bool:
    try:
        return parse_unsigned(obj["metadata"].get("resourceVersion") or "0") > 0
    except NumberError:
        return False


async def create_object(
    backend: Backend, call: Call, obj: Json, options: WriteOptions, *, has_version: bool = False
) -> Item:
    """
    Create a pruned object of the request; PUT of a missing object ends here, too.

    `has_version`: the object names a version, so storage will refuse it, after everybody else.
    """
    resource = call.resource
    # A body may leave them out, and also have them empty.
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    obj = accepting.default(resource, {**head, **obj, **head})
    if resource.has_status and not resource.strategy.status_on_create:
        obj.pop("status", None)
    tracked = writing.track_create(backend, call, obj, options)
    return await writing.commit_create(backend, call, tracked, options, has_version=has_version)
