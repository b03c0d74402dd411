"""
What of a plan is written already: after a restart only the API server can tell. It knows what it, and the webhooks
behind it, fill in, and which fields are left over from an earlier version of us that sent more.

What Kubeflow Trainer made need not be what ktrain would build, and no JobSet may become another. So it is kept, with
all that its pods mount: only what may change of a suspended JobSet follows its TrainJob. What may not, and comes from
the runtime and its patches alone, is no matter of who built it: where that is another, a patch asks for what cannot be,
and is refused and told as of any JobSet.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ktrain.api import core
from ktrain.framework.client.client import APPLY_TYPE
from ktrain.framework.errors import ApiError
from ktrain.plugins.jobset import JOB_SET_STATES

from .writing import is_same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.framework.client.client import Client

    from .writing import Apply

_REFUSALS: Final = (403, 422)
_OF_PODS: Final = ("nodeSelector", "tolerations", "schedulingGates")
_FROM_PATCHES: Final = (
    *("affinity", "serviceAccountName", "imagePullSecrets", "securityContext"),
    "terminationGracePeriodSeconds",
)
"""What patches may set of pods and no plugin does."""
_OF_METADATA: Final = ("labels", "annotations")


class Compared(NamedTuple):
    """What need not be written, with the generations of what is there (0 where a kind has none)."""

    settled: list[tuple[Apply, int]]
    kept: bytes = b""
    """If the JobSet is kept as it is: what of ours it is kept instead of."""


async def compare(client: Client, applies: Sequence[Apply], *, keeps: bool) -> Compared:
    """
    Compare components with what is there. With `keeps`, what stands beside a JobSet is kept, and so is a JobSet that
    cannot become ours.

    Raises:
        ApiError: One could not be written.
    """
    settled: list[tuple[Apply, int]] = []
    kept = b""
    for apply in applies:
        is_job_set = apply.component.resource == JOB_SET_STATES
        built = apply.component.body
        live = await client.get(core.untyped(apply.component.resource), apply.key.name, apply.key.namespace)
        try:
            written = live if keeps and not is_job_set else await _tried(client, apply, built)
        except ApiError as error:
            if not (keeps and is_job_set and _is_immutable(error)):
                raise
            kept = _fixed(built)
            written = await _tried(client, apply, _adjusted(live, built))
        if is_same(live, written):
            settled.append((apply, live["metadata"].get("generation", 0)))
    return Compared(settled, kept)


async def to_write(client: Client, apply: Apply, kept: bytes) -> Json:
    """Return what to write of a component: of a JobSet that is `kept`, what is there with what may change of it."""
    built = apply.component.body
    if not (kept and apply.exists and apply.component.resource == JOB_SET_STATES and kept == _fixed(built)):
        return built
    return _adjusted(
        await client.get(core.untyped(apply.component.resource), apply.key.name, apply.key.namespace), built
    )


async def _tried(client: Client, apply: Apply, body: Json) -> Json:
    query = [("fieldManager", client.field_manager), ("force", "true"), ("dryRun", "All")]
    path = core.untyped(apply.component.resource).path(*apply.key)
    answer = await client.raw("PATCH", path, query=query, body=body, headers={"Content-Type": APPLY_TYPE})
    found: Json = msgspec.json.decode(answer.body)
    return found


def _is_immutable(error: ApiError) -> bool:
    text = error.status.message or str(error)
    return error.code in _REFUSALS and "replicatedJobs" in text and "field is immutable" in text


def _adjusted(live: Json, built: Json) -> Json:
    """Return the JobSet that is there with what may change of it as it was built."""
    pods = {job["name"]: job["template"]["spec"]["template"] for job in built["spec"]["replicatedJobs"]}
    jobs = [_with_pods(job, pods.get(job["name"])) for job in live["spec"]["replicatedJobs"]]
    spec = {key: value for key, value in live["spec"].items() if key != "suspend"} | {"replicatedJobs": jobs}
    if "suspend" in built["spec"]:
        spec["suspend"] = built["spec"]["suspend"]
    return built | {"spec": spec}


def _with_pods(job: Json, built: Json | None) -> Json:
    if built is None:
        return job
    template = job["template"]
    pods = _as_patched(_without(template["spec"]["template"]), built["spec"])
    metadata = pods.get("metadata", {}) | _only(_OF_METADATA, built.get("metadata", {}))
    pods = {**pods, "metadata": metadata, "spec": pods["spec"] | _only(_OF_PODS, built["spec"])}
    if not metadata:
        del pods["metadata"]
    return job | {"template": template | {"spec": template["spec"] | {"template": pods}}}


def _as_patched(pods: Json, built: Json) -> Json:
    spec = pods["spec"]
    other = [name for name in _FROM_PATCHES if (spec.get(name) or None) != (built.get(name) or None)]
    kept = {key: value for key, value in spec.items() if key not in other}
    return pods | {"spec": kept | _only(tuple(other), built)}


def _without(pods: Json) -> Json:
    """Return a pod template without what may change."""
    spec = {key: value for key, value in pods["spec"].items() if key not in _OF_PODS}
    metadata = {key: value for key, value in pods.get("metadata", {}).items() if key not in _OF_METADATA}
    return pods | {"metadata": metadata, "spec": spec}


def _only(names: tuple[str, ...], part: Json) -> Json:
    return {name: part[name] for name in names if part.get(name)}


def _fixed(built: Json) -> bytes:
    """Digest what may not change of a JobSet as we build it."""
    jobs = [
        job | {"template": job["template"] | {"spec": job["template"]["spec"] | {"template": _without(pods)}}}
        for job in built["spec"]["replicatedJobs"]
        for pods in (job["template"]["spec"]["template"],)
    ]
    return blake2b(msgspec.json.encode(jobs, order="deterministic"), digest_size=16).digest()
