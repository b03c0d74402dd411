"""
The PodGroups of other gang schedulers, for the embedded server only.

A cluster that has kubernetes-sigs/scheduler-plugins or Volcano has their definitions from them, of their own version;
one that has not must not look as if it had, since jobs would wait for a scheduler that is not there. The embedded
scheduler honours both kinds itself. Described are the fields of the versions that jobs are built for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .build import QUANTITY, array, column, crd, integer, obj, rule, text

if TYPE_CHECKING:
    from ..meta import Json

_DOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_COUNTERS: Final = {name: integer() for name in ("failed", "running", "succeeded")}


def pod_group_crds() -> list[Json]:
    """Both CRDs."""
    return [_coscheduling(), _volcano()]


def _resources(description: str) -> Json:
    amount: Json = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": True,
    }
    return {"type": "object", "additionalProperties": amount, "description": description}


def _named(definition: Json, *short: str) -> Json:
    definition["spec"]["names"]["shortNames"] = list(short)
    return definition


def _coscheduling() -> Json:
    spec = obj(
        {
            "minMember": integer(1, description="Pods that are placed together, or none."),
            "minResources": _resources("What they ask for together; looked at before any is tried."),
            "scheduleTimeoutSeconds": integer(description="How long placed pods wait for the others."),
        }
    )
    status = obj(
        {
            **_COUNTERS,
            "occupiedBy": text(),
            "phase": text(),
            "scheduleStartTime": text(format="date-time"),
        }
    )
    schema = obj({"spec": spec, "status": status}, description="A gang of the coscheduling plugin.")
    columns = [column("Phase", ".status.phase"), column("MinMember", ".spec.minMember", "integer")]
    return _named(crd("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", schema, columns=columns), "pg", "pgs")


def _topology() -> Json:
    return obj(
        {
            "highestTierAllowed": {"type": "integer", "minimum": 0},
            "highestTierName": text(),
            "mode": text(enum=["hard", "soft"], default="hard"),
        },
        rules=(
            rule(
                "!(has(self.highestTierAllowed) && has(self.highestTierName))",
                "must not have both highestTierAllowed and highestTierName",
            ),
        ),
        description="How far apart the pods may be.",
    )


def _volcano() -> Json:
    selector = obj({"matchLabels": {"type": "object", "additionalProperties": text()}}, description="Of pods.")
    part = obj(
        {
            "labelSelector": selector | {"x-kubernetes-preserve-unknown-fields": True},
            "matchLabelKeys": array(text()),
            "minSubGroups": integer(0, default=0),
            "name": text(),
            "networkTopology": _topology(),
            "subGroupSize": integer(1, default=1),
        },
        required=("name",),
    )
    tasks: Json = {"type": "object", "additionalProperties": integer(0)}
    spec = obj(
        {
            "minMember": integer(0, description="Pods that are placed together, or none."),
            "minResources": _resources("What they ask for together."),
            "minTaskMember": tasks | {"description": "The same for each task."},
            "networkTopology": _topology(),
            "priorityClassName": text(high=253),
            "queue": text(high=253, pattern=_DOMAIN, default="default"),
            "subGroupPolicy": array(part),
        }
    )
    condition = obj(
        {name: text() for name in ("message", "reason", "status", "transitionID", "type")}
        | {"lastTransitionTime": text(format="date-time")}
    )
    phases = ["Pending", "Inqueue", "Running", "Unknown", "Completed"]
    status = obj({**_COUNTERS, "conditions": array(condition), "phase": text(enum=phases, default="Pending")})
    schema = obj({"spec": spec, "status": status}, description="A gang of Volcano.")
    columns = [
        column("STATUS", ".status.phase"),
        column("minMember", ".spec.minMember", "integer"),
        column("RUNNINGS", ".status.running", "integer"),
    ]
    definition = crd("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", schema, columns=columns)
    return _named(definition, "pg", "podgroup-v1beta1")
