"""`podFailurePolicy`: what one failed pod means for its Job. The first rule that matches decides (KEP-3329)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktrain.api.core import ContainerStatus, Pod

    from .types import Job, OnExitCodes, OnPodCondition


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done about a failed pod: Count, Ignore, FailIndex or FailJob; `message` is why a Job fails."""

    action: str = "Count"
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure goes into the counters and against the limits."""
        return self.action != "Ignore"


_COUNT: Final = Verdict()


def judge(job: Job, pod: Pod) -> Verdict:
    """Apply the policy to a failed pod, as it is now. Without one, or without a match, the failure counts."""
    if job.spec.pod_failure_policy is None:
        return _COUNT
    for number, rule in enumerate(job.spec.pod_failure_policy.rules):
        found = _match_codes(rule.on_exit_codes, pod) if rule.on_exit_codes else _match(rule.on_pod_conditions, pod)
        if found is not None:
            return Verdict(rule.action, f"{found} matching {rule.action} rule at index {number}")
    return _COUNT


def _match_codes(wanted: OnExitCodes, pod: Pod) -> str | None:
    """Main containers first; one that still runs has no exit code, and success is no failure."""
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = status.state.terminated
        if ended is not None and ended.exit_code and _is_wanted(wanted, status, ended.exit_code):
            where = f"{pod.metadata.namespace}/{pod.metadata.name}"
            return f"Container {status.name} for pod {where} failed with exit code {ended.exit_code}"
    return None


def _is_wanted(wanted: OnExitCodes, status: ContainerStatus, code: int) -> bool:
    if wanted.container_name not in (None, status.name):
        return False
    return (code in wanted.values) == (wanted.operator == "In")


def _match(patterns: tuple[OnPodCondition, ...], pod: Pod) -> str | None:
    wanted = {(pattern.type, pattern.status) for pattern in patterns}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in wanted:
            return f"Pod {pod.metadata.namespace}/{pod.metadata.name} has condition {condition.type}"
    return None
