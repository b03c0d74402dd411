"""The body of a kind that is a question: decoded, checked and pruned like any other, but never stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ktrain.local.apiserver import codec
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.requests import write_options
from ktrain.local.apiserver.verbs import accepting, writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.registry import ServedResource


def read_question(backend: Backend, call: Call, resource: ServedResource | None = None) -> Json:
    """
    Return the object in the body of a POST, which belongs to the request and has kind, apiVersion and metadata.

    `resource` is its kind if that is not the URL's own, as with TokenRequest.

    Raises:
        StatusError: 400, 415 or 422: it is not what this URL takes.
    """
    resource = resource or call.resource
    options = write_options("CreateOptions", call.request, call.parameters)
    body = codec.decode_object(call.request.body, call.header("content-type"), kind=resource.kind)
    accepting.check_type(resource, body.obj)
    accepting.check_shape(resource, body.obj)
    # A name in the URL is that of the object asked about.
    asking = replace(call, resource=resource, name="")
    obj, complaints = accepting.prune(asking, body.obj)
    accepting.report(asking, [*body.duplicates, *complaints], options.validation)
    accepting.check_names(asking, obj)
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": obj["metadata"]}
    obj = {**head, **obj, **head}
    return writing.track_create(backend, asking, obj, options)


def invalid(resource: ServedResource, found: Sequence[Cause]) -> StatusError:
    """Return the 422 of a review. Upstream leaves the kind out of it, so do we: messages are compared."""
    texts = [f"{cause.field}: {cause.message}" for cause in found]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: Json = {
        "group": resource.group,
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in found],
    }
    return StatusError(422, "Invalid", f'.{resource.group} "" is invalid: {listed}', details=details)
