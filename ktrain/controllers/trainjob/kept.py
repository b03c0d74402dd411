"""
A JobSet that Kubeflow Trainer made otherwise than ktrain would, kept as it is. Pure.

Only what may change of a suspended JobSet follows its TrainJob. What may not, and comes from the runtime and its
patches alone, is no matter of who built it: where that is another, a patch asks for what cannot be. So the JobSet is
written with it, and refused, and that is told as of any JobSet. So is what a patch adds to lists that plugins add to,
too. What it has taken back of those, while nobody looked, cannot be told from what Kubeflow has set.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json, JsonValue

_OF_PODS: Final = ("nodeSelector", "tolerations", "schedulingGates")
_FROM_PATCHES: Final = (
    *("affinity", "serviceAccountName", "imagePullSecrets", "securityContext"),
    "terminationGracePeriodSeconds",
)
"""What patches may set of pods and no plugin does."""
_LISTS: Final = {"volumes": "name", "env": "name", "volumeMounts": "mountPath"}
"""What both set, with what tells one from another: whose it is, the patch says."""
_CONTAINERS: Final = ("initContainers", "containers")
_OF_METADATA: Final = ("labels", "annotations")


def adjusted(live: Json, built: Json, patches: Sequence[Json]) -> Json:
    """Return the JobSet that is there with what may change of it as it was built, and with what *patches* ask for."""
    pods = {job["name"]: job["template"]["spec"]["template"] for job in built["spec"]["replicatedJobs"]}
    asked: dict[str, list[Json]] = {}
    for patch in patches:
        for job in patch.get("replicatedJobs") or ():
            asked.setdefault(job["name"], []).append(_pod_spec(job))
    jobs = [
        _with_pods(job, pods.get(job["name"]), asked.get(job["name"], ())) for job in live["spec"]["replicatedJobs"]
    ]
    spec = {key: value for key, value in live["spec"].items() if key != "suspend"} | {"replicatedJobs": jobs}
    if "suspend" in built["spec"]:
        spec["suspend"] = built["spec"]["suspend"]
    return built | {"spec": spec}


def _pod_spec(patched: Json) -> Json:
    """Return what a patch of a replicated job says of its pods, whatever of it there is."""
    found = patched
    for field in ("template", "spec", "template", "spec"):
        found = found.get(field) or {}
    return found


def _with_pods(job: Json, built: Json | None, asked: Sequence[Json]) -> Json:
    if built is None:
        return job
    template = job["template"]
    pods = _as_patched(_without(template["spec"]["template"]), built["spec"])
    metadata = pods.get("metadata", {}) | _only(_OF_METADATA, built.get("metadata", {}))
    spec = pods["spec"] | _only(_OF_PODS, built["spec"])
    for patch in asked:
        spec = _as_asked(spec, built["spec"], patch)
    pods = {**pods, "metadata": metadata, "spec": spec}
    if not metadata:
        del pods["metadata"]
    return job | {"template": template | {"spec": template["spec"] | {"template": pods}}}


def _as_patched(pods: Json, built: Json) -> Json:
    spec = pods["spec"]
    other = [name for name in _FROM_PATCHES if (spec.get(name) or None) != (built.get(name) or None)]
    kept = {key: value for key, value in spec.items() if key not in other}
    return pods | {"spec": kept | _only(tuple(other), built)}


def _as_asked(live: Json, built: Json, patch: Json) -> Json:
    """Return a pod, or a container, as it is, but for what *patch* asks for, the build has and it does not."""
    changed: Json = {}
    for field, key in _LISTS.items():
        if said := patch.get(field):
            changed[field] = _list_as_asked(live.get(field) or [], built.get(field) or [], said, key)
    for field in _CONTAINERS:
        if said := patch.get(field):
            changed[field] = _containers_as_asked(live.get(field) or [], built.get(field) or [], said)
    if (said := patch.get("securityContext")) and not _holds(live.get("securityContext"), said):
        changed["securityContext"] = built.get("securityContext")
    return live | {field: value for field, value in changed.items() if value}


def _list_as_asked(live: list[Json], built: list[Json], said: list[Json], key: str) -> list[Json]:
    there, new = {one[key]: one for one in live}, {one[key]: one for one in built}
    asked = {one[key]: new[one[key]] for one in said if _holds(new.get(one[key]), one)}
    missing = {name: one for name, one in asked.items() if not _holds(there.get(name), _said_of(said, key, name))}
    return [missing.get(one[key], one) for one in live] + [one for name, one in missing.items() if name not in there]


def _said_of(said: list[Json], key: str, name: str) -> Json:
    return next(one for one in said if one[key] == name)


def _containers_as_asked(live: list[Json], built: list[Json], said: list[Json]) -> list[Json]:
    new, asked = ({one["name"]: one for one in part} for part in (built, said))
    return [
        _as_asked(one, new[one["name"]], asked[one["name"]]) if one["name"] in new and one["name"] in asked else one
        for one in live
    ]


def _holds(value: JsonValue, said: JsonValue) -> bool:
    """Whether a value has all that was said of it; a server may have filled in more."""
    if isinstance(said, dict):
        return isinstance(value, dict) and all(_holds(value.get(field), part) for field, part in said.items())
    return bool(value == said)


def _without(pods: Json) -> Json:
    """Return a pod template without what may change."""
    spec = {key: value for key, value in pods["spec"].items() if key not in _OF_PODS}
    metadata = {key: value for key, value in pods.get("metadata", {}).items() if key not in _OF_METADATA}
    return pods | {"metadata": metadata, "spec": spec}


def _only(names: tuple[str, ...], part: Json) -> Json:
    return {name: part[name] for name in names if part.get(name)}


def fixed(built: Json) -> bytes:
    """Digest what may not change of a JobSet as we build it."""
    jobs = [
        job | {"template": job["template"] | {"spec": job["template"]["spec"] | {"template": _without(pods)}}}
        for job in built["spec"]["replicatedJobs"]
        for pods in (job["template"]["spec"]["template"],)
    ]
    return blake2b(msgspec.json.encode(jobs, order="deterministic"), digest_size=16).digest()
