"""When a container that ended starts again, and after how long: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .status import Role

if TYPE_CHECKING:
    from .spec import Container
    from .status import Terminated


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Delays between restarts, in seconds: the kubelet's (first restart at once, then 10 s doubling to 300 s)."""

    first_s: float = 10.0
    longest_s: float = 300.0
    healthy_after_s: float = 600.0
    """A container that ran this long starts over with its delays."""


KUBERNETES_RESTARTS: Final = RestartPolicy()


class RestartBackoff:
    """The delays of one container."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._next_s = 0.0

    def delay_s(self, ended: Terminated) -> float:
        """Return how long to wait after this end."""
        if (ended.finished_at - ended.started_at).total_seconds() >= self._policy.healthy_after_s:
            self._next_s = 0.0
        delay, self._next_s = self._next_s, min(max(self._next_s * 2, self._policy.first_s), self._policy.longest_s)
        return delay


def restarts(container: Container, role: Role, pod_policy: str, exit_code: int) -> bool:
    """
    Whether a container that ended by itself starts again. Init containers are done once they succeed,
    ephemeral ones once they end.

    A container's own rules are asked first, then its own policy, then the pod's (KEP-5307).
    """
    if role is Role.EPHEMERAL:
        return False
    if role is Role.SIDECAR:
        return True
    if any(rule.matches(exit_code) for rule in container.restart_policy_rules):
        return True
    policy = container.restart_policy or pod_policy
    if policy == "Never" or (role is Role.INIT and exit_code == 0):
        return False
    return policy == "Always" or exit_code != 0
