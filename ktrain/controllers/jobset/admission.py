"""
JobSets on admission: defaults when they are created, and what is refused then and later.

Plain functions of objects as they are on the wire, so that the embedded server calls them in process and webhooks over
HTTP. The order of the layers is the API server's: `default_jobset`, then the schema with its rules, then `refusals`;
whichever objects first answers alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.jobset import GROUP
from ktrain.framework.errors import Status, StatusCause, StatusDetails

from .decoded import CLAIM, JOB_TEMPLATE, decoded
from .mutability import refusals_on_update
from .validation import refusals_on_create

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktrain.api.meta import Json, JsonValue
    from ktrain.api.schema import Cause

    from .gates import Gates
    from .volume_rules import FindClaim

__all__ = ["MUTATE_PODS", "VALIDATE_JOBSETS", "VALIDATE_PODS", "default_jobset", "invalid_jobset", "refusals"]

VALIDATE_JOBSETS: Final = "vjobset.kb.io"
"""The name by which refusals are announced, whoever makes them: people search for it. So with the next two."""
MUTATE_PODS: Final = "mpod.kb.io"
VALIDATE_PODS: Final = "vpod.kb.io"


def refusals(new: Json, old: Json | None, gates: Gates, find_claim: FindClaim | None = None) -> list[Cause]:
    """Everything that is wrong with a JobSet that is created (`old` is None) or updated."""
    if old is None:
        return refusals_on_create(new, find_claim, gates)
    return refusals_on_update(new, old, gates)


def invalid_jobset(name: str, causes: Sequence[Cause]) -> Status:
    """Turn what is wrong with a JobSet into the answer to its request: 422 Invalid, everything at once."""
    # What is said twice, as a bad name is that breaks the Jobs' names and the pods', is one part of the sentence.
    texts = list(dict.fromkeys(map(str, causes)))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Status(
        status="Failure",
        code=422,
        reason="Invalid",
        message=f'JobSet.{GROUP} "{name}" is invalid: {listed}',
        details=StatusDetails(
            name=name,
            group=GROUP,
            kind="JobSet",
            causes=tuple(StatusCause(cause.reason, cause.message, cause.field) for cause in causes),
        ),
    )


def default_jobset(jobset: Json) -> Json:
    """
    Return the JobSet with its defaults. For CREATE only: what an update removes stays removed.

    The input is not changed. Values of the wrong type pass through for the schema to refuse. Beside the defaults
    proper, required fields that are missing are written as zero values, as upstream's webhook does by decoding and
    encoding: the schema then objects to the value and not to the absence.
    """
    spec = _child(jobset, "spec")
    if spec is None:
        return jobset
    defaulted = {**spec}
    defaulted["network"] = _network(spec.get("network"))
    defaulted["successPolicy"] = _with_zero(spec.get("successPolicy", {"operator": "All"}), operator="")
    startup: Json = {"startupPolicyOrder": "AnyOrder"}
    defaulted["startupPolicy"] = _with_zero(spec.get("startupPolicy", startup), startupPolicyOrder="")
    for field, default in (
        ("replicatedJobs", _replicated_job),
        ("failurePolicy", _failure_policy),
        ("coordinator", lambda value: _with_zero(value, replicatedJob="")),
        ("volumeClaimPolicies", _volume_claim_policy),
    ):
        if field in spec:
            defaulted[field] = _each(spec[field], default)
    return {**jobset, "spec": defaulted}


def _network(network: JsonValue) -> JsonValue:
    return _with_zero({} if network is None else network, enableDNSHostnames=True, publishNotReadyAddresses=True)


def _failure_policy(policy: Json) -> Json:
    rules = policy.get("rules")
    if not isinstance(rules, list):
        return policy
    return {**policy, "rules": [_rule(rule, index) for index, rule in enumerate(rules)]}


def _rule(rule: JsonValue, index: int) -> JsonValue:
    if not isinstance(rule, dict):
        return rule
    named = rule if rule.get("name") else {**rule, "name": f"failurePolicyRule{index}"}
    return {"action": "", **named}


def _volume_claim_policy(policy: Json) -> JsonValue:
    if isinstance(templates := policy.get("templates"), list):
        policy = {**policy, "templates": [decoded(template, CLAIM) for template in templates]}
    return _with_zero(policy, retentionPolicy={"whenDeleted": "Delete"})


def _replicated_job(rj: Json) -> Json:
    rj = {"name": "", **rj, "template": _job_template(decoded(rj.get("template") or {}, JOB_TEMPLATE))}
    if "dependsOn" in rj:
        rj["dependsOn"] = _each(rj["dependsOn"], lambda parent: {"name": "", "status": "", **parent})
    return rj


def _job_template(template: JsonValue) -> JsonValue:
    spec = _child(template, "spec")
    pod = _child(spec, "template")
    pod_spec = _child(pod, "spec")
    if not isinstance(template, dict) or spec is None or pod is None or pod_spec is None:
        return template
    pod_spec = {**pod_spec, "restartPolicy": pod_spec.get("restartPolicy") or "OnFailure"}
    mode = spec.get("completionMode")
    spec = {**spec, "completionMode": "Indexed" if mode is None else mode, "template": {**pod, "spec": pod_spec}}
    return {**template, "spec": spec}


def _child(parent: JsonValue, field: str) -> Json | None:
    """The object in a field, empty if absent; None if it, or the parent, is no object."""
    value = parent.get(field) or {} if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else None


def _each(value: JsonValue, change: Callable[[Json], JsonValue]) -> JsonValue:
    """Change an object, or the objects in a list; leave alone what is neither."""
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    return change(value) if isinstance(value, dict) else value


def _with_zero(value: JsonValue, **fields: JsonValue) -> JsonValue:
    """Add the fields that an object lacks or has as null."""
    if not isinstance(value, dict):
        return value
    return {**value, **{field: zero for field, zero in fields.items() if value.get(field) is None}}
