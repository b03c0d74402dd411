"""`pods/binding`: how a scheduler gives a pod its node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ktrain.api.meta import format_time
from ktrain.local.apiserver import causes, errors
from ktrain.local.apiserver.access.asked import read_question
from ktrain.local.apiserver.admission import subresources
from ktrain.local.apiserver.errors import StatusError
from ktrain.local.apiserver.forms import representation
from ktrain.local.apiserver.reading import listing
from ktrain.local.apiserver.verbs import accepting

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend, Call
    from ktrain.local.apiserver.requests import Answer


async def serve(backend: Backend, call: Call) -> Answer:
    """
    Set a pod's node, merge the binding's labels and annotations, and mark it as scheduled.

    Raises:
        StatusError: No such pod, it has a node already, is being deleted, or is gated.
    """
    binding = await _read(backend, call)
    if binding["metadata"].get("name", "") != call.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    return representation.plain_answer(call, await _bind(backend, call, binding), status=201)


async def bind_named(backend: Backend, call: Call) -> Json:
    """
    Do the same for a Binding that is posted by itself and names its pod.

    Raises:
        StatusError: As `serve`.
    """
    return await _bind(backend, call, await _read(backend, call))


async def _read(backend: Backend, call: Call) -> Json:
    binding = read_question(backend, call, backend.registry.builtin("v1", "Binding"))
    return await subresources.mutate_posted(backend, call, binding)


async def _bind(backend: Backend, call: Call, binding: Json) -> Json:
    target = binding.get("target") or {}
    node = target.get("name", "")
    found = [] if node else [causes.required("target.name")]
    if target.get("kind", "Node") not in {"", "Node"}:
        found.append(causes.not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if found:
        # Upstream loses the kind of this error on the way.
        texts = [f"{cause.field}: {cause.message}" for cause in reversed(found)]
        raise StatusError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    await subresources.validate_posted(backend, call, binding)
    call = replace(call, resource=backend.registry.builtin("v1", "Pod"), name=binding["metadata"].get("name", ""))
    item = listing.get_object(backend, call)
    pod = accepting.private_copy(item.obj)
    _refuse(call, pod, binding)
    pod["spec"]["nodeName"] = node
    meta = pod["metadata"]
    for name in ("annotations", "labels"):
        if given := (binding.get("metadata") or {}).get(name):
            meta[name] = {**meta.get(name, {}), **given}
    _set_scheduled(pod, format_time(backend.now()))
    # Kept until the pod had a node of its own.
    pod["status"].pop("nominatedNodeName", None)
    if not call.parameters.text("dryRun"):
        backend.store.put(call.resource.collection, call.key, pod, expected=item.revision, schema=item.schema)
    return errors.success(code=201)


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
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status["conditions"] = [*others, condition]
