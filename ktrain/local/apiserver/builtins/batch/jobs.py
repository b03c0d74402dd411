"""Jobs: generated selector and labels, defaults, and what may change while they live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import label_value_errors
from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins.batch import status as job_status
from ktrain.local.apiserver.builtins.batch.policies import default_failure_policy
from ktrain.local.apiserver.builtins.batch.validation import (
    validate_generated_selector,
    validate_job,
    validate_job_spec,
)
from ktrain.local.apiserver.builtins.pods.defaults import default_pod_spec
from ktrain.local.apiserver.builtins.pods.warnings import warn_of_template
from ktrain.local.apiserver.builtins.workloads.templates import warn_of_name
from ktrain.local.apiserver.strategy import Propagation, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_UNLIMITED: Final = 2**31 - 1
_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
_MANY_INDEXES: Final = 100_000
_MANY_PODS: Final = 10_000
_IMMUTABLE: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
"""What of a suspended job's template may change: where its pods run. Queueing systems such as Kueue rest on it."""


class JobStrategy(Strategy):
    """Jobs."""

    default_propagation: Propagation = "Orphan"
    deletion_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
        "or set propagationPolicy=Orphan to suppress this warning"
    )

    def default(self, obj: Json) -> None:
        """Fill in the spec and the template."""
        spec = obj.setdefault("spec", {})
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", _UNLIMITED if "backoffLimitPerIndex" in spec else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
        for policy in ("podFailurePolicy", "successPolicy"):
            if policy in spec:
                spec[policy].setdefault("rules", None)
        default_failure_policy(spec)
        template = spec.setdefault("template", {})
        if isinstance(template.get("spec"), dict):
            default_pod_spec(template["spec"], requests=False)
        labels = (template.get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            # The same ones, as upstream has it: what is generated into the template's shows in the job's, too.
            obj["metadata"]["labels"] = labels

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Generate the selector and the labels that tie pods to this job and to no other."""
        spec, meta = obj["spec"], obj["metadata"]
        obj["status"] = {}
        template_meta = spec["template"].setdefault("metadata", {})
        if not spec["manualSelector"]:
            labels = template_meta.setdefault("labels", {})
            name = meta.get("name", "")
            generated = {_NAME_LABEL: name, "job-name": name}
            generated |= {_UID_LABEL: meta["uid"], "controller-uid": meta["uid"]}
            for name, value in generated.items():
                labels.setdefault(name, value)
            selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
            selector.setdefault(_UID_LABEL, meta["uid"])
        # What does not do as a label is refused in the template, and would be refused twice.
        if not meta.get("labels") and not label_value_errors(meta.get("name", "")):
            meta["labels"] = dict(template_meta.get("labels", {}))

    def validate_create(self, obj: Json) -> Sequence[Cause]:
        """Check that the selector is this job's own, and the spec."""
        return [*validate_generated_selector(obj, prefixed=True), *validate_job(obj)]

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Refuse changes of what running pods were made from."""
        spec, before = obj["spec"], old["spec"]
        labels = (before["template"].get("metadata") or {}).get("labels") or {}
        return [
            *validate_generated_selector(obj, prefixed=_NAME_LABEL in labels and _UID_LABEL in labels),
            *validate_job(obj),
            # Upstream looks twice, and lists the causes twice.
            *validate_job_spec(spec),
            *_validate_completions(spec, before),
            *_validate_immutable(spec, before, ("selector",)),
            *_validate_template(spec, old),
            *_validate_immutable(spec, before, _IMMUTABLE),
        ]

    def warn(self, obj: Json) -> Sequence[str]:
        """Warn of names that make bad hostnames, of more indexes than can be tracked, and of the template."""
        template = obj["spec"]["template"]
        return [*warn_of_name(obj), *_size_warnings(obj["spec"]), *warn_of_template(template, "spec.template")]

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Check the transition."""
        return job_status.validate(obj, old)


def _validate_immutable(spec: Json, before: Json, fields: Sequence[str]) -> list[Cause]:
    changed = [name for name in fields if spec.get(name) != before.get(name)]
    return [causes.invalid(f"spec.{name}", spec.get(name), causes.IMMUTABLE) for name in changed]


def _validate_completions(spec: Json, before: Json) -> list[Cause]:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return []
    if spec["completionMode"] != "Indexed":
        return [causes.invalid("spec.completions", completions, causes.IMMUTABLE)]
    if completions is None or completions == spec["parallelism"]:
        return []
    detail = "can only be modified in tandem with spec.parallelism"
    return [causes.invalid("spec.completions", completions, detail)]


def _validate_template(spec: Json, old: Json) -> list[Cause]:
    template, before = spec["template"], old["spec"]["template"]
    if template == before:
        return []
    # The old object decides: one update may resume a job and place its pods.
    if not old["spec"].get("suspend") or not _is_at_rest(old):
        return [causes.invalid("spec.template", template, causes.IMMUTABLE)]
    pod = template.get("spec", {})
    if _without_directives(pod) != _without_directives(before.get("spec", {})):
        return [causes.invalid("spec.template.spec", pod, causes.IMMUTABLE)]
    return []


def _is_at_rest(job: Json) -> bool:
    """Whether a suspended job has no pods that were made from its template and still run."""
    status = job.get("status") or {}
    conditions = status.get("conditions") or ()
    suspended = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in conditions)
    return ("startTime" not in status or suspended) and not status.get("active")


def _without_directives(spec: Json) -> Json:
    """Leave out what may change in a job at rest: where its pods run (KEP-2926), and what they ask for (KEP-5440)."""
    rest = {name: value for name, value in spec.items() if name not in _DIRECTIVES}
    affinity = {name: value for name, value in (spec.get("affinity") or {}).items() if name != "nodeAffinity"}
    if affinity:
        rest["affinity"] = affinity
    for field in ("containers", "initContainers"):
        if field in rest:
            rest[field] = [{**container, "resources": None} for container in rest[field]]
    return rest


def _size_warnings(spec: Json) -> list[str]:
    is_large = (spec.get("completions") or 0) > _MANY_INDEXES and spec.get("parallelism", 0) > _MANY_PODS
    if spec.get("completionMode") != "Indexed" or not is_large:
        return []
    which = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4"
    risk = "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
    return [f"spec: {which}, {risk}"]
