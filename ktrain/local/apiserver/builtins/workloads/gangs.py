"""
Workloads and PodGroups (`scheduling.k8s.io/v1alpha2`): pods that start together or not at all.

Alpha and behind the gate GenericWorkload upstream, so discovery shows them only when the feature is on. A PodGroup's
policy is set once: this version has nothing that may change. Source: KEP-4671, and the declarative rules in
k8s.io/api/scheduling/v1alpha2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.schema import Cause
from ktrain.local.apiserver import causes, names
from ktrain.local.apiserver.strategy import WHOLE_METADATA, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Backend

API_VERSION: Final = "scheduling.k8s.io/v1alpha2"
FEATURE: Final = "GenericWorkload"
_MAX_TEMPLATES: Final = 8


class WorkloadStrategy(Strategy):
    """Workloads."""

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the templates of groups, and whose they are."""
        spec = obj.get("spec") or {}
        templates = spec.get("podGroupTemplates") or []
        found = [] if templates else [causes.required("spec.podGroupTemplates")]
        if len(templates) > _MAX_TEMPLATES:
            text = f"Too many: {len(templates)}: must have at most {_MAX_TEMPLATES} items"
            found.append(Cause("spec.podGroupTemplates", "FieldValueTooMany", text))
        seen: set[str] = set()
        for index, template in enumerate(templates):
            field, name = f"spec.podGroupTemplates[{index}]", template.get("name", "")
            if name in seen:
                found.append(causes.duplicate(field, {"name": name}))
            seen.add(name)
            found += _validate_named(name, f"{field}.name")
            found += _validate_policy(template.get("schedulingPolicy") or {}, f"{field}.schedulingPolicy")
        if reference := spec.get("controllerRef"):
            for part in ("kind", "name"):
                found += _validate_segment(reference.get(part, ""), f"spec.controllerRef.{part}")
        return found

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Nothing of it changes but its controller, once."""
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        found = []
        if spec.get("podGroupTemplates") != before.get("podGroupTemplates"):
            templates = spec.get("podGroupTemplates")
            found.append(causes.invalid("spec.podGroupTemplates", templates, causes.IMMUTABLE))
        if spec.get("controllerRef") != before.get("controllerRef"):
            found.append(causes.invalid("spec.controllerRef", spec.get("controllerRef"), causes.IMMUTABLE))
        return found


class PodGroupStrategy(Strategy):
    """PodGroups."""

    kept_by_status = WHOLE_METADATA

    def prepare_create(self, obj: Json, backend: Backend) -> None:
        """Start unscheduled."""
        obj["status"] = {}

    def validate(self, obj: Json) -> Sequence[Cause]:
        """Check the policy and the template it comes from."""
        spec = obj.get("spec") or {}
        found = list(_validate_policy(spec.get("schedulingPolicy") or {}, "spec.schedulingPolicy"))
        reference = spec.get("podGroupTemplateRef")
        if reference is None:
            return found
        field, workload = "spec.podGroupTemplateRef", reference.get("workload")
        if workload is None:
            return [*found, causes.invalid(field, "", "must specify one of: `workload`")]
        if not (name := workload.get("workloadName")):
            found.append(causes.required(f"{field}.workload.workloadName"))
        else:
            wrong = names.subdomain(name)
            found += [causes.invalid(f"{field}.workload.workloadName", name, text) for text in wrong]
        template = workload.get("podGroupTemplateName", "")
        return [*found, *_validate_named(template, f"{field}.workload.podGroupTemplateName")]

    def validate_update(self, obj: Json, old: Json) -> Sequence[Cause]:
        """Nothing of it changes."""
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        return [
            causes.invalid(f"spec.{name}", spec.get(name), causes.IMMUTABLE)
            for name in sorted(spec.keys() | before.keys())
            if spec.get(name) != before.get(name)
        ]


def _validate_policy(policy: Json, field: str) -> Iterator[Cause]:
    given = [name for name in ("basic", "gang") if name in policy]
    if not given:
        yield causes.invalid(field, "", "must specify one of: `basic`, `gang`")
    elif len(given) > 1:
        yield causes.invalid(field, "{`basic`, `gang`}", "must specify exactly one of: `basic`, `gang`")
    if (gang := policy.get("gang")) is not None:
        count = gang.get("minCount", 0)
        if count == 0:
            yield causes.required(f"{field}.gang.minCount")
        elif count < 1:
            yield causes.invalid(f"{field}.gang.minCount", count, "must be greater than or equal to 1")


def _validate_named(name: str, field: str) -> Iterator[Cause]:
    if not name:
        yield causes.required(field)
    else:
        for text in names.label(name):
            yield causes.invalid(field, name, text)


def _validate_segment(value: str, field: str) -> Iterator[Cause]:
    if not value:
        yield causes.required(field)
    else:
        for text in names.path_segment(value):
            yield causes.invalid(field, value, text)
