"""
Refusals: every error a request can end in, as the Status object that goes to the client.

`StatusError` is raised anywhere below `ApiServer.handle` and turned into an answer there, and only there. The texts are
the API machinery's own: clients (kubectl, client-go, controllers) parse some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ktrain.api.meta import Json, Key
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.registry import ServedResource

ACCEPTED_BODIES: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
NOT_FOUND_TEXT: Final = b"404 page not found\n"


class StatusError(Exception):
    """
    A refusal with its Status.

    Admission plugins raise it, too, with `warnings` for the client. `details` and `reason` may be left out; both then
    stay out of the body.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        list_meta: Json | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.list_meta = list_meta
        self.warnings = warnings

    def body(self) -> Json:
        """Return the metav1.Status."""
        status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": self.list_meta or {}, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class PageNotFound(Exception):
    """The URL leads nowhere: answered as plain text, from which clients build their own NotFound."""


def success(details: Json | None = None, *, code: int | None = None) -> Json:
    """Return the Status of a request that worked and has no object to show."""
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code is not None:
        status["code"] = code
    return status


def about(resource: ServedResource, name: str) -> Json:
    """Return the details of a storage error: they name the plural."""
    details: Json = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


def no_kind(kind: str, version: str) -> str:
    """Return what a decoder says of a kind that it does not know; where its source says so is part of the text."""
    return f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'


def internal(message: str) -> StatusError:
    """500 for what a webhook or a policy did wrong; the message appears twice, as upstream has it."""
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, details={"causes": [{"message": message}]})


def not_found(resource: ServedResource, name: str) -> StatusError:
    """404 for an object."""
    return StatusError(404, "NotFound", f'{resource.qualified_name} "{name}" not found', details=about(resource, name))


def resource_not_found() -> StatusError:
    """404 for a resource that a built-in group version does not have."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def is_built_in(served: Iterable[ServedResource], group: str) -> bool:
    """Whether a group is of the server's own: what it lacks is said in other words."""
    custom = [resource.custom for resource in served if resource.group == group]
    return bool(custom) and not any(custom)


def method_not_served() -> StatusError:
    """405 for a built-in URL that takes other methods."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def method_not_allowed(verb: str, resource: ServedResource) -> StatusError:
    """405. Built-in kinds have no URL for it at all, and so no words of their own."""
    if not resource.custom:
        return wrong_method()
    return StatusError(
        405,
        "MethodNotAllowed",
        f'{verb} is not supported on resources of kind "{resource.qualified_name}"',
        details=about(resource, ""),
    )


def wrong_method() -> StatusError:
    """405 for a method that a subresource does not have."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def already_exists(resource: ServedResource, key: Key, *, deleting: bool) -> StatusError:
    """409 on create."""
    prefix = "object is being deleted: " if deleting else ""
    message = f'{prefix}{resource.qualified_name} "{key.name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=about(resource, key.name))


def conflict(resource: ServedResource, name: str, detail: str, *, by_kind: bool = False) -> StatusError:
    """409: the object is not as the client believes. `by_kind` names the Kind, as delete preconditions do."""
    qualified = _qualified_kind(resource) if by_kind else resource.qualified_name
    details = about(resource, name)
    if by_kind:
        details["kind"] = resource.kind
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {detail}'
    return StatusError(409, "Conflict", message, details=details)


def modified(resource: ServedResource, name: str) -> StatusError:
    """409: a stale resourceVersion."""
    detail = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, detail)


def forbidden(resource: ServedResource, name: str, detail: str, causes: Iterable[Json] = ()) -> StatusError:
    """403."""
    details = about(resource, name)
    if listed := list(causes):
        details["causes"] = listed
    return StatusError(403, "Forbidden", f'{resource.qualified_name} "{name}" is forbidden: {detail}', details=details)


def invalid(resource: ServedResource, name: str, causes: Sequence[Cause], *, kind: str = "") -> StatusError:
    """422 with its causes; `kind` replaces the resource's own when the body named another."""
    return _invalid(resource.group, kind or resource.kind, name, causes)


def invalid_for_plural(resource: ServedResource, name: str, causes: Sequence[Cause]) -> StatusError:
    """422 as the storage layer words it: with the plural for the kind."""
    return _invalid(resource.group, resource.plural, name, causes)


def invalid_for(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422 for a body of another kind than the resource's: a Scale, an Eviction."""
    return _invalid(group, kind, name, causes)


def invalid_options(kind: str, causes: Sequence[Cause]) -> StatusError:
    """422 for query parameters and DeleteOptions."""
    return _invalid("meta.k8s.io", kind, "", causes)


def invalid_patch(message: str = "the server rejected our request due to an error in our request") -> StatusError:
    """422 for a JSON patch that does not apply."""
    return StatusError(422, "Invalid", message, details={})


def invalid_result(text: str, wrong: str) -> StatusError:
    """422 for a patch whose result is no object of the kind; `text` shows the patch or what came out of it."""
    shown = msgspec.json.encode(text).decode()
    cause = {"reason": "FieldValueInvalid", "message": f"Invalid value: {shown}: {wrong}", "field": "patch"}
    return StatusError(422, "Invalid", f' "" is invalid: patch: {cause["message"]}', details={"causes": [cause]})


def unsupported_media_type(accepted: str = ACCEPTED_BODIES) -> StatusError:
    """415."""
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(message: str) -> StatusError:
    """406."""
    return StatusError(406, "NotAcceptable", message)


def future_version(asked: int, current: int) -> StatusError:
    """504: a resourceVersion that the store has not reached."""
    message = f"Too large resource version: {asked}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": 1}
    return StatusError(504, "Timeout", f"Timeout: {message}", details=details)


def expired(message: str, *, list_meta: Json | None = None) -> StatusError:
    """410: history no longer reaches back that far."""
    return StatusError(410, "Expired", message, list_meta=list_meta)


def _qualified_kind(resource: ServedResource) -> str:
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def _invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    body = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details: Json = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = kind
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {body}', details=details)
