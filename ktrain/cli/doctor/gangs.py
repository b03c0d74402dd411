"""Gang policies of runtimes: whether the cluster serves the kinds of the scheduler that each one names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.api.trainer import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES

from .cluster import name_of
from .finding import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ktrain.api.meta import Json

    from .cluster import Cluster
    from .finding import Finding

KINDS: Final = {
    "coscheduling": ("scheduling.x-k8s.io", ("v1alpha1",), "podgroups", "scheduler-plugins with coscheduling"),
    "volcano": ("scheduling.volcano.sh", ("v1beta1",), "podgroups", "Volcano"),
    "workload": (
        "scheduling.k8s.io",
        ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"),
        "workloads",
        "the feature gates GenericWorkload and GangScheduling, with --runtime-config=scheduling.k8s.io/v1alpha2=true",
    ),
}
"""By the name of the policy: group, versions that ktrain writes, plural, and what brings the kind."""

_report: Final = Reporter("gangs")


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Say which policies work, and which runtimes ask for one that does not."""
    runtimes = [*await cluster.some(CLUSTER_TRAINING_RUNTIMES), *await cluster.some(TRAINING_RUNTIMES)]
    for policy, (group, versions, plural, source) in KINDS.items():
        users = [name_of(one) for one in runtimes if policy in _policies(one)]
        served = [version for version in versions if plural in await cluster.served(group, version)]
        subject = f"podGroupPolicy.{policy}"
        if served:
            yield _report.ok(subject, f"{plural}.{group} is served ({served[0]})")
        elif users:
            what = f"{plural}.{group} is not served, and {len(users)} runtimes ask for it: {', '.join(users[:3])}"
            yield _report.error(subject, what, f"install {source}, or take the policy out of these runtimes")
        else:
            yield _report.ok(subject, f"not available: {plural}.{group} is not served; no runtime asks for it")


def _policies(runtime: Json) -> dict[str, Any]:
    return (runtime.get("spec") or {}).get("podGroupPolicy") or {}
