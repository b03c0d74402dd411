"""What other operators left behind, or still do, on the objects that ktrain works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS
from ktrain.api.trainer import CLUSTER_TRAINING_RUNTIMES, IN_USE_FINALIZER, TRAINING_RUNTIMES

from .cluster import LIMIT, name_of
from .finding import Reporter
from .installation import OURS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .cluster import Cluster
    from .finding import Finding


OLD_KINDS: Final = ("pytorchjobs.kubeflow.org", "mpijobs.kubeflow.org", "tfjobs.kubeflow.org")

_report: Final = Reporter("leftovers")


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Look for other operators at work, for finalizers of theirs, and for kinds of the Training Operator v1."""
    clean = True
    for product, deployment in cluster.installation.others:
        if product == "JobSet operator":
            continue
        running = deployment["spec"].get("replicas", 1)
        name = f"Deployment {name_of(deployment)}"
        if product == OURS:
            clean = False
            yield _report.warning(
                name, "is a second ktrain operator", "keep one, unless each watches its own namespaces"
            )
        elif product == "Kubeflow Trainer" and running:
            clean = False
            yield _another_trainer(cluster, name, running)
    runtimes = (CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES)
    held = [name_of(one) for kind in runtimes for one in await cluster.some(kind) if _is_held(one)]
    if held:
        clean = False
        carried = f"the finalizer {IN_USE_FINALIZER} of Kubeflow Trainer 2.0 to 2.2"
        what = f"{_count(held)} runtimes carry {carried}, {held[0]} for one"
        if cluster.is_installed:
            yield _report.warning("runtimes", what, "ktrain's operator takes it off: see that it runs, and its log")
        else:
            yield _report.ok("runtimes", f"{what}; ktrain's operator will take it off")
    for name in OLD_KINDS:
        if await cluster.find(CUSTOM_RESOURCE_DEFINITIONS, name) is not None:
            clean = False
            yield _report.ok(name, "belongs to the Training Operator v1, which can work beside ktrain")
    if clean:
        yield _report.ok("cluster", "no other training operator")


def _another_trainer(cluster: Cluster, name: str, running: int) -> Finding:
    if cluster.is_installed:
        what = f"is Kubeflow Trainer's operator ({running} replicas): two operators write the same TrainJobs"
        return _report.error(name, what, "scale it to 0 or uninstall its release; keep its CRDs")
    what = f"is Kubeflow Trainer's operator ({running} replicas); ktrain takes its place"
    return _report.warning(name, what, "follow docs/upgrade.md: they must not run side by side")


def _is_held(runtime: dict[str, Any]) -> bool:
    return IN_USE_FINALIZER in (runtime["metadata"].get("finalizers") or ())


def _count(found: list[str]) -> str:
    return f"{LIMIT} or more" if len(found) >= LIMIT else str(len(found))
