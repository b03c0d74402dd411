"""`pods/binding`: how a scheduler gives a pod its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.meta import format_time
from ktrain.local.apiserver import causes, codec, errors, listing, representation
from ktrain.local.apiserver.errors import StatusError, invalid
from ktrain.local.apiserver.verbs import accepting

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import Answer


async def serve(backend: Backend, call: Call) -> Answer:
    """
    Set a pod's node, merge the binding's annotations, and mark it as scheduled.

    Raises:
        StatusError: No such pod, it has a node already, is being deleted, or is gated.
    """
    binding = codec.decode_object(call.request.body, call.header("content-type"), kind="Binding").obj
    target = binding.get("target") or {}
    node = target.get("name", "")
    if not node:
        raise invalid(call.resource, call.name, [causes.required("target.name")], kind="Binding")
    if target.get("kind", "Node") not in {"", "Node"}:
        wrong = [causes.not_supported("target.kind", target["kind"], ["Node", "<empty>"])]
        raise invalid(call.resource, call.name, wrong, kind="Binding")
    item = listing.get_object(backend, call)
    pod = accepting.private_copy(item.obj)
    _refuse(call, pod, binding)
    pod["spec"]["nodeName"] = node
    meta = pod["metadata"]
    if annotations := (binding.get("metadata") or {}).get("annotations"):
        meta["annotations"] = {**meta.get("annotations", {}), **annotations}
    if "generation" in meta:
        meta["generation"] += 1
    _set_scheduled(pod, format_time(backend.now()))
    if not call.parameters.text("dryRun"):
        backend.store.put(call.resource.collection, call.key, pod, expected=item.revision, schema=item.schema)
    return representation.plain_answer(call, errors.success(code=201), status=201)


def _refuse(call: Call, pod: Json, binding: Json) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    uid = (binding.get("metadata") or {}).get("uid")
    if uid and uid != meta["uid"]:
        detail = f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']})"
        raise _conflict(call, detail)
    if "deletionTimestamp" in meta:
        raise _conflict(call, f"pod {call.name} is being deleted, cannot be assigned to a host")
    if node := spec.get("nodeName"):
        raise _conflict(call, f'pod {call.name} is already assigned to node "{node}"')
    if spec.get("schedulingGates"):
        raise _conflict(call, f"pod {call.name} has non-empty .spec.schedulingGates")


def _conflict(call: Call, detail: str) -> StatusError:
    details = errors.about(call.resource, call.name)
    details["kind"] = "pods/binding"
    message = f'Operation cannot be fulfilled on pods/binding "{call.name}": {detail}'
    return StatusError(409, "Conflict", message, details=details)


def _set_scheduled(pod: Json, now: str) -> None:
    status = pod.setdefault("status", {})
    others = [c for c in status.get("conditions", ()) if c.get("type") != "PodScheduled"]
    status["conditions"] = [*others, {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}]
