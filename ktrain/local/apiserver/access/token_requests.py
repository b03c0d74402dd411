"""`serviceaccounts/token`: makes a token of an account, perhaps bound to an object that it dies with (TokenRequest)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key, format_time
from ktrain.local.apiserver import causes, errors
from ktrain.local.apiserver.access.account_tokens import BOUND_KINDS
from ktrain.local.apiserver.access.asked import read_question
from ktrain.local.apiserver.access.quoting import quote
from ktrain.local.apiserver.admission import subresources
from ktrain.local.apiserver.errors import StatusError, bad_request
from ktrain.local.apiserver.forms.representation import plain_answer
from ktrain.local.apiserver.reading import listing
from ktrain.local.apiserver.registry import ServedResource
from ktrain.local.apiserver.strategy import ORDINARY
from ktrain.local.apiserver.verbs import writing

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import Answer

_DEFAULT_S: Final = 3600
_SHORTEST_S: Final = 600
_LONGEST_S: Final = 1 << 32
TOKEN_REQUEST: Final = ServedResource(
    group="authentication.k8s.io",
    version="v1",
    kind="TokenRequest",
    plural="tokenrequests",
    namespaced=True,
    strategy=ORDINARY,
)
"""The kind of the body; there is no such resource."""


async def serve(backend: Backend, call: Call) -> Answer:
    """
    Answer with a token.

    Raises:
        StatusError: No such account or object, or what was asked for is refused.
    """
    resource = TOKEN_REQUEST
    obj = await subresources.mutate_posted(backend, call, read_question(backend, call, resource))
    meta = obj["metadata"]
    if meta.get("name", call.name) != call.name:
        wrong = [causes.invalid("metadata.name", meta["name"], "must match the service account name if specified")]
        raise errors.invalid(resource, call.name, wrong)
    writing.check_namespace(backend, call, call.name)
    account = listing.get_object(backend, call).obj
    spec: Json = obj.get("spec") or {}
    lifetime_s: int = _DEFAULT_S if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
    _check_lifetime(resource, lifetime_s)
    audiences = spec.get("audiences") or list(backend.gate.account_tokens.audiences)
    reference = spec.get("boundObjectRef")
    bound = _bound(backend, call, reference) if reference else []
    shown = {
        **meta,
        "name": call.name,
        "namespace": call.namespace,
        "uid": account["metadata"]["uid"],
        "creationTimestamp": format_time(backend.now()),
    }
    document = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": shown,
        "spec": {"audiences": audiences, "expirationSeconds": lifetime_s, "boundObjectRef": reference},
        "status": {"token": "", "expirationTimestamp": None},
    }
    await subresources.validate_posted(backend, call, document)
    issued = backend.gate.account_tokens.issue(account, bound, audiences, lifetime_s)
    document["status"] = {"token": issued.token, "expirationTimestamp": format_time(issued.expires)}
    return plain_answer(call, document, status=201)


def _check_lifetime(resource: ServedResource, lifetime_s: int) -> None:
    detail = ""
    if lifetime_s < _SHORTEST_S:
        detail = "may not specify a duration less than 10 minutes"
    elif lifetime_s > _LONGEST_S:
        detail = "may not specify a duration larger than 2^32 seconds"
    if detail:
        raise errors.invalid(resource, "", [causes.invalid("spec.expirationSeconds", lifetime_s, detail)])


def _bound(backend: Backend, call: Call, reference: Json) -> list[tuple[str, Json]]:
    kind, name, version = (str(reference.get(field) or "") for field in ("kind", "name", "apiVersion"))
    group = version.rpartition("/")[0]
    if kind not in BOUND_KINDS or group:
        shown = version if group else f"/{version or 'v1'}"
        raise bad_request(f"cannot bind token to object of type {shown}, Kind={kind}")
    resource = backend.registry.builtin("v1", kind)
    item = backend.collection(resource).get(Key(call.namespace if resource.namespaced else "", name))
    if item is None:
        raise errors.not_found(resource, name)
    obj = item.obj
    if kind == "Pod" and obj["spec"].get("serviceAccountName") != call.name:
        target = "to pod running with different serviceaccount name."
        raise bad_request(f"cannot bind token for serviceaccount {quote(call.name)} {target}")
    uid = reference.get("uid")
    if uid and uid != obj["metadata"]["uid"]:
        detail = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise _conflict(kind, name, detail)
    bound = [(kind.lower(), obj)]
    if kind == "Pod" and (node := obj["spec"].get("nodeName")):
        found = backend.find("", "v1", "nodes", Key("", node))
        bound.append(("node", found.obj if found else {"metadata": {"name": node}}))
    return bound


def _conflict(kind: str, name: str, detail: str) -> StatusError:
    message = f"Operation cannot be fulfilled on {kind} {quote(name)}: {detail}"
    return StatusError(409, "Conflict", message, details={"name": name, "kind": kind})
