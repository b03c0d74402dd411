"""From a method and a URL to the verb that serves them, and from its result to an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ktrain.api.schema.cel import CelError
from ktrain.api.schema.cel.values import parse_duration
from ktrain.local.apiserver import errors
from ktrain.local.apiserver.forms import views
from ktrain.local.apiserver.forms.representation import (
    EventRenderer,
    answer,
    format_of,
    plain_answer,
    render_object,
    render_page,
)
from ktrain.local.apiserver.reading import listing, watching
from ktrain.local.apiserver.requests import Answer
from ktrain.local.apiserver.subresources import SUBRESOURCES
from ktrain.local.apiserver.verbs import scale
from ktrain.local.apiserver.verbs.create import create
from ktrain.local.apiserver.verbs.delete import delete, delete_collection
from ktrain.local.apiserver.verbs.patching import check_patch_type, patch
from ktrain.local.apiserver.verbs.update import update

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.forms.representation import Format
    from ktrain.local.apiserver.registry import Review, Scale

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_COLLECTION_VERBS: Final = {**_VERBS, "GET": "list", "HEAD": "list", "DELETE": "deletecollection"}
_OBJECT_VERBS: Final = {**_VERBS, "GET": "get", "HEAD": "get", "DELETE": "delete"}
_VIEW_VERBS: Final = ("get", "patch", "update")


async def dispatch(backend: Backend, call: Call) -> Answer:
    """
    Serve a request to a resource.

    Raises:
        StatusError: Refused.
        PageNotFound: The URL leads nowhere.
    """
    verb = _verb(call)
    _check_timeout(call)
    if verb == "create" and call.resource.custom and not call.subresource:
        # A name in the URL means nothing: the object says its own.
        call = replace(call, name="")
    if call.resource.review is not None:
        return await _review(backend, call, call.resource.review)
    if call.name and call.resource.namespaced and not call.namespace:
        # Without their namespace, objects have no URL.
        raise errors.PageNotFound if call.resource.custom else errors.resource_not_found()
    if call.subresource:
        return await _subresource(backend, call, verb)
    if not call.name:
        return await _collection(backend, call, verb)
    if verb not in {"get", "update", "patch", "delete"}:
        raise errors.method_not_allowed(verb, call.resource)
    return await _object(backend, call, verb)


def _check_timeout(call: Call) -> None:
    given = call.parameters.text("timeout")
    try:
        if given:
            parse_duration(given)
    except CelError as error:
        text = f'invalid timeout specified in the request URL - time: invalid duration "{given}"'
        raise errors.bad_request(text) from error


def _verb(call: Call) -> str:
    """Return what a method means here; nothing if it means nothing: HEAD does only for custom kinds."""
    method = call.request.method
    if method == "HEAD" and not call.resource.custom:
        return ""
    return (_OBJECT_VERBS if call.name else _COLLECTION_VERBS).get(method, "")


async def _collection(backend: Backend, call: Call, verb: str) -> Answer:
    if call.resource.custom and call.resource.namespaced and not call.namespace and verb != "list":
        raise errors.PageNotFound
    watch = verb == "list" and call.parameters.flag("watch")
    fmt = format_of(call, watch=watch)
    if watch:
        renderer = EventRenderer(backend, call, fmt)
        chunks = watching.open_watch(backend, call, renderer.object, renderer.bookmark)
        return Answer(200, chunks=chunks)
    if verb == "list":
        listing.check_request(call)
        await listing.await_revision(backend, call)
        page = await _shown_page(backend, call, listing.list_objects(backend, call))
        return answer(200, render_page(backend, call, page, fmt), fmt)
    if verb == "create" and "create" in call.resource.verbs:
        written = await create(backend, call)
        return answer(201, render_object(backend, call, written.item, fmt), fmt)
    if verb == "deletecollection" and verb in call.resource.verbs:
        page = await _shown_page(backend, call, await delete_collection(backend, call))
        return answer(200, render_page(backend, call, page, fmt), fmt)
    if verb in {"update", "patch"} and call.resource.custom:
        if verb == "patch":
            check_patch_type(call)
        raise errors.bad_request("name must be provided")
    raise errors.method_not_allowed(verb, call.resource)


async def _shown_page(backend: Backend, call: Call, page: listing.Page) -> listing.Page:
    return replace(page, items=await backend.conversions.items(call.resource, page.items))


async def _review(backend: Backend, call: Call, review: Review) -> Answer:
    """Answer a question, and nothing else: there are no objects of such a kind."""
    if call.name or bool(call.namespace) is not call.resource.namespaced:
        raise errors.resource_not_found()
    if call.request.method != "POST":
        raise errors.method_not_served()
    return plain_answer(call, await review(backend, call), status=201)


async def _object(backend: Backend, call: Call, verb: str) -> Answer:
    fmt = format_of(call)
    if verb == "get":
        await listing.await_revision(backend, call)
        item = await views.shown(backend, call.resource, listing.get_object(backend, call))
        return answer(200, render_object(backend, call, item, fmt), fmt)
    if verb == "delete":
        return await _delete(backend, call, fmt)
    written = await (update if verb == "update" else patch)(backend, call)
    return answer(201 if written.created else 200, render_object(backend, call, written.item, fmt), fmt)


async def _delete(backend: Backend, call: Call, fmt: Format) -> Answer:
    outcome, code = await delete(backend, call)
    if not outcome.gone or call.resource.strategy.answers_deleted_object:
        item = await views.shown(backend, call.resource, outcome.item)
        return answer(code, render_object(backend, call, item, fmt), fmt)
    details = errors.about(call.resource, call.name)
    details["uid"] = outcome.item.obj["metadata"]["uid"]
    return plain_answer(call, errors.success(details), status=code)


async def _subresource(backend: Backend, call: Call, verb: str) -> Answer:
    resource, name = call.resource, call.subresource
    handler = SUBRESOURCES.get((resource.qualified_name, name))
    if handler is not None:
        if verb not in resource.subresources[name]:
            raise errors.method_not_allowed(verb, resource)
        return await handler(backend, call)
    if name == "scale" and resource.scale is not None:
        return plain_answer(call, await _scale(backend, call, verb, resource.scale))
    verbs = _VIEW_VERBS if name == "status" and resource.has_status else resource.subresources.get(name)
    if verbs is None:
        raise errors.not_found(resource, call.name) if resource.custom else errors.resource_not_found()
    if verb not in verbs:
        raise errors.method_not_allowed(verb, resource)
    return await _object(backend, call, verb)


async def _scale(backend: Backend, call: Call, verb: str, paths: Scale) -> Json:
    if verb == "get":
        return await scale.get(backend, call, paths)
    if verb not in {"update", "patch"}:
        raise errors.method_not_allowed(verb, call.resource)
    return await scale.write(backend, call, paths)
