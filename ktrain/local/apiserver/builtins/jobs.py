"""Jobs: generated selector and labels, defaults, and what may change while they live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver import causes
from ktrain.local.apiserver.builtins import job_status
from ktrain.local.apiserver.builtins.job_validation import validate_job_spec
from ktrain.local.apiserver.builtins.pod_defaults import default_pod_spec
from ktrain.local.apiserver.strategy import Propagation, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json
    from ktrain.api.schema import Cause
    from ktrain.local.apiserver.backend import Backend

_UNLIMITED: Final = 2**31 - 1
_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
_IMMUTABLE: Final = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
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
        for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
            for pattern in rule.get("onPodConditions", ()):
                pattern.setdefault("status", "True")
        template = spec.setdefault("template", {})
        if isinstance(template.get("spec"), dict):
            default_pod_spec(template["spec"], requests=False)

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Generate the selector and the labels that tie pods to this job and to no other."""
        del backend
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
        if not meta.get("labels"):
            meta["labels"] = dict(template_meta.get("labels", {}))

    def prepare_update(self, obj: Json, old: Json, backend: Backend) -> None:
        """Keep what was generated when a client that does not know it writes the whole object."""
        del backend
        spec, before = obj["spec"], old["spec"]
        if "selector" not in spec and "selector" in before:
            spec["selector"] = before["selector"]
            labels = before["template"].get("metadata", {}).get("labels", {})
            template_meta = spec["template"].setdefault("metadata", {})
            template_meta["labels"] = {**labels, **template_meta.get("labels", {})}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the spec."""
        return validate_job_spec(obj)

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Refuse changes of what running pods were made from."""
        spec, before = obj["spec"], old["spec"]
        found = [_immutable(name, spec.get(name)) for name in _IMMUTABLE if spec.get(name) != before.get(name)]
        found += _validate_completions(spec, before)
        found += _validate_template(spec, old)
        return found

    def validate_status(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Check the transition."""
        return job_status.validate(obj, old)


def _immutable(name: str, value: object) -> Cause:
    return causes.invalid(f"spec.{name}", value, causes.IMMUTABLE)


def _validate_completions(spec: Json, before: Json) -> list[Cause]:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return []
    if spec["completionMode"] != "Indexed":
        return [_immutable("completions", completions)]
    if completions == spec["parallelism"]:
        return []
    detail = "can only be modified in tandem with spec.parallelism"
    return [causes.invalid("spec.completions", completions, detail)]


def _validate_template(spec: Json, old: Json) -> list[Cause]:
    template, before = spec["template"], old["spec"]["template"]
    if template == before:
        return []
    # The old object decides: one update may resume a job and place its pods.
    if not (old["spec"].get("suspend") and "startTime" not in old.get("status", {})):
        return [_immutable("template", template)]
    if _without_directives(template.get("spec", {})) != _without_directives(before.get("spec", {})):
        return [_immutable("template.spec", template.get("spec"))]
    return []


def _without_directives(spec: Json) -> Json:
    rest = {name: value for name, value in spec.items() if name not in _DIRECTIVES}
    for field in ("containers", "initContainers"):
        if field in rest:
            rest[field] = [{**container, "resources": None} for container in rest[field]]
    return rest
