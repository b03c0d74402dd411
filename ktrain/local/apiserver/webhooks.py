"""
Admission webhooks by URL: the stage of admission after the plugins.

What a real API server does, as far as developing a webhook needs it: rules, selectors, versions (matchPolicy), order,
time limits, failurePolicy, warnings, dry run. Configurations take effect with the request after the one that stored
them. Entries that name a Service are stored but not called, for there is no network here that leads to one; so are
those with matchConditions.

A connection is made for each call. That costs a handshake, some milliseconds, and nothing has to be closed in the end.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api.meta import Key
from ktrain.api.patch import PatchError, json_patch
from ktrain.api.selectors import LabelSelector
from ktrain.local.apiserver.errors import StatusError, bad_request
from ktrain.local.apiserver.reviews import Failed, call_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json
    from ktrain.framework.env import Env
    from ktrain.local.apiserver.admission import AdmissionRequest
    from ktrain.local.apiserver.registry import Registry, ServedResource
    from ktrain.local.apiserver.store import Store

_GROUP: Final = "admissionregistration.k8s.io"
_MUTATING: Final = "mutatingwebhookconfigurations"
_VALIDATING: Final = "validatingwebhookconfigurations"
_HARMLESS: Final = ("None", "NoneOnDryRun")


@dataclass(frozen=True, slots=True)
class _Match:
    """A webhook that wants to see a request, and the version of the resource it wants to see."""

    entry: Json
    resource: ServedResource


class Webhooks:
    """Calls the webhooks that the stored configurations name."""

    def __init__(self, store: Store, registry: Registry, env: Env) -> None:
        self._store = store
        self._registry = registry
        self._env = env

    async def mutate(self, request: AdmissionRequest, warnings: list[str]) -> Json | None:
        """
        Call the mutating webhooks one after the other; return the object if one of them changed it, else None.

        Raises:
            StatusError: Refused, or a webhook failed whose policy is Fail.
        """
        before = request.object
        left: list[tuple[_Match, Json | None]] = []
        for match in self._matching(_MUTATING, request):
            request = await self._apply(match, request, warnings)
            left.append((match, request.object))
        for match, seen in left:
            if match.entry.get("reinvocationPolicy") == "IfNeeded" and request.object is not seen:
                request = await self._apply(match, request, warnings)
        return None if request.object is before else request.object

    async def validate(self, request: AdmissionRequest, warnings: list[str]) -> None:
        """
        Call the validating webhooks, all at once; before a deletion, the mutating ones too.

        Raises:
            StatusError: Refused, or a webhook failed whose policy is Fail.
        """
        if request.operation == "DELETE":
            await self.mutate(request, warnings)
        matches = list(self._matching(_VALIDATING, request))
        if not matches:
            return
        asked = (self._ask(match, request, warnings, validating=True) for match in matches)
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _apply(self, match: _Match, request: AdmissionRequest, warnings: list[str]) -> AdmissionRequest:
        """Ask a mutating webhook; return the request with the object as it wants it."""
        patched = _patched(match, request, await self._ask(match, request, warnings))
        if patched is None:
            return request
        head = {"kind": request.resource.kind, "apiVersion": request.resource.api_version}
        return replace(request, object={**patched, **head})

    def _matching(self, plural: str, request: AdmissionRequest) -> Iterator[_Match]:
        """Webhooks that a request is for, in the order of their configurations' names, then their own."""
        if request.resource.group == _GROUP:
            return
        collection = self._store.collection(f"{plural}.{_GROUP}")
        if not len(collection):
            return
        for _, item in sorted(collection.entries()):
            for entry in item.obj.get("webhooks") or ():
                if not (entry.get("clientConfig") or {}).get("url") or entry.get("matchConditions"):
                    continue
                resource = self._by_rules(entry, request)
                if resource is not None and self._is_selected(entry, request):
                    yield _Match(entry, resource)

    def _by_rules(self, entry: Json, request: AdmissionRequest) -> ServedResource | None:
        """Return the version in which a webhook's rules cover a request; None if they do not."""
        wanted = request.resource
        rules = [rule for rule in entry.get("rules") or () if _is_covered(rule, request)]
        if any(_has(rule, "apiVersions", wanted.version) for rule in rules):
            return wanted
        if entry.get("matchPolicy", "Equivalent") == "Exact":
            return None
        for rule in rules:
            for version in rule.get("apiVersions") or ():
                found = self._registry.find(wanted.group, version, wanted.plural)
                if found is not None:
                    return found
        return None

    def _is_selected(self, entry: Json, request: AdmissionRequest) -> bool:
        by_object = LabelSelector.from_object(entry.get("objectSelector") or {})
        both = [one for one in (request.object, request.old_object) if one is not None]
        if not by_object.is_everything and not any(by_object.matches(_labels(one)) for one in both):
            return False
        by_namespace = LabelSelector.from_object(entry.get("namespaceSelector") or {})
        if by_namespace.is_everything:
            return True
        if request.resource.collection == "namespaces":
            return by_namespace.matches(_labels(both[0]))
        if not request.resource.namespaced:
            return True
        namespace = self._store.collection("namespaces").get(Key("", request.namespace))
        return by_namespace.matches(_labels(namespace.obj) if namespace else {})

    async def _ask(
        self, match: _Match, request: AdmissionRequest, warnings: list[str], *, validating: bool = False
    ) -> Json:
        """Call one webhook and return its response; empty if it failed and that does not matter."""
        entry = match.entry
        name = entry["name"]
        if request.dry_run and entry.get("sideEffects") not in _HARMLESS:
            raise bad_request(f'admission webhook "{name}" does not support dry run')
        uid = str(uuid.UUID(int=self._env.random.getrandbits(128), version=4))
        try:
            response = await call_webhook(entry, _review(match, request, uid), uid, validating=validating)
        except Failed as failed:
            if entry.get("failurePolicy", "Fail") == "Ignore":
                return {}
            message = f'failed calling webhook "{name}": {failed}'
            raise _internal(message) from failed
        warnings.extend(response.get("warnings") or ())
        if not response["allowed"]:
            raise _denied(name, response.get("status") or {})
        return response


def _is_covered(rule: Json, request: AdmissionRequest) -> bool:
    """Whether a rule is about a request, whatever its version."""
    if not (_has(rule, "operations", request.operation) and _has(rule, "apiGroups", request.resource.group)):
        return False
    if rule.get("scope", "*") not in {"*", "Namespaced" if request.resource.namespaced else "Cluster"}:
        return False
    for pattern in rule.get("resources") or ():
        plural, _, subresource = pattern.partition("/")
        if plural in {"*", request.resource.plural} and subresource in {"*", request.subresource}:
            return True
    return False


def _has(rule: Json, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return "*" in values or value in values


def _labels(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _review(match: _Match, request: AdmissionRequest, uid: str) -> Json:
    sent, asked = match.resource, request.resource
    head = {"kind": sent.kind, "apiVersion": sent.api_version}
    user = request.user
    body: Json = {
        "uid": uid,
        "kind": {"group": sent.group, "version": sent.version, "kind": sent.kind},
        "resource": {"group": sent.group, "version": sent.version, "resource": sent.plural},
        "requestKind": {"group": asked.group, "version": asked.version, "kind": asked.kind},
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
        "operation": request.operation,
        "userInfo": {"username": user.name, "groups": list(user.groups), **({"uid": user.uid} if user.uid else {})},
        "object": None if request.object is None else {**request.object, **head},
        "oldObject": None if request.old_object is None else {**request.old_object, **head},
        "dryRun": request.dry_run,
        "options": request.options,
    }
    if request.subresource:
        body |= {"subResource": request.subresource, "requestSubResource": request.subresource}
    if request.name:
        body["name"] = request.name
    if asked.namespaced:
        body["namespace"] = request.namespace
    elif asked.collection == "namespaces":
        body["namespace"] = request.name
    return body


def _patched(match: _Match, request: AdmissionRequest, response: Json) -> Json | None:
    """Return the object as a webhook wants it, None if it wants no change."""
    if not response.get("patch"):
        return None
    if request.object is None:
        name = match.entry["name"]
        raise _internal(
            f'admission webhook "{name}" attempted to modify the object, which is not supported for this operation'
        )
    try:
        operations = msgspec.json.decode(base64.b64decode(response["patch"], validate=True), type=list[dict[str, Any]])
    except (binascii.Error, msgspec.MsgspecError) as error:
        raise _internal(str(error)) from error
    patched: Json = {**request.object, "kind": match.resource.kind, "apiVersion": match.resource.api_version}
    for operation in operations:
        try:
            patched = json_patch(patched, [operation])
        except PatchError as error:
            what = f"error in {operation.get('op')} for path: '{operation.get('path')}'"
            raise _internal(f"{what}: {error}") from error
    return patched


def _internal(message: str) -> StatusError:
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, details={"causes": [{"message": message}]})


def _denied(name: str, status: Json) -> StatusError:
    code = status.get("code") or 0
    why = status.get("message") or status.get("reason")
    text = f'admission webhook "{name}" denied the request' + (f": {why}" if why else " without explanation")
    reason = status.get("reason", "")
    return StatusError(code if code >= 400 else 400, reason, text, details=status.get("details"))
