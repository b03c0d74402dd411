"""ktrain's own operator: replicas, readiness, and who leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.core import PODS
from ktrain.framework.errors import ApiError, Forbidden, NotFound
from ktrain.framework.serving.address import parse_address

from .cluster import name_of
from .finding import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ktrain.api.meta import Json

    from .cluster import Cluster
    from .finding import Finding

_report: Final = Reporter("operator")


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Check the Deployment, its configuration, what unready replicas say, and the lease."""
    installation = cluster.installation
    deployment = installation.deployment
    if installation.candidates:
        what = f"several Deployments look like the operator: {', '.join(installation.candidates)}"
        yield _report.error("operator", what, "name the namespace of the one that is meant with -n")
    if deployment is None:
        if not installation.candidates and not cluster.is_installed:
            yield _report.ok("operator", "is not installed")
        return
    name = f"Deployment {name_of(deployment)}"
    if installation.problem:
        fix = "correct the configuration (chart: manager.config); replicas with it do not start"
        yield _report.error(name, installation.problem, fix)
    wanted = deployment["spec"].get("replicas", 1)
    ready = (deployment.get("status") or {}).get("readyReplicas", 0)
    if not wanted:
        yield _report.error(name, "is scaled to 0: nothing works on TrainJobs", "kubectl scale --replicas 2")
    elif ready < wanted:
        found = _report.warning if ready else _report.error
        yield found(name, f"{ready} of {wanted} replicas are ready", "see the lines below, and kubectl logs")
        async for finding in _unready(cluster, deployment):
            yield finding
    else:
        yield _report.ok(name, f"{ready} of {wanted} replicas are ready")
    yield await _leader(cluster, wanted)


async def _unready(cluster: Cluster, deployment: Json) -> AsyncIterator[Finding]:
    """Ask each replica that is not ready what `/readyz` says, through the API server."""
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    health = parse_address(cluster.installation.configuration.health.health_probe_bind_address)
    for pod in await cluster.some(PODS, cluster.installation.namespace, labels=selector):
        name, status = name_of(pod), pod.get("status") or {}
        conditions = {one["type"]: one for one in status.get("conditions") or ()}
        if (conditions.get("Ready") or {}).get("status") == "True":
            continue
        if told := _waiting(status):
            yield _report.error(f"Pod {name}", told, f"kubectl describe pod -n {pod['metadata']['namespace']}")
        elif health is not None:
            path = PODS.path(pod["metadata"]["namespace"], f"{pod['metadata']['name']}:{health[1]}", "proxy")
            try:
                await cluster.client.raw("GET", f"{path}/readyz")
            except (Forbidden, NotFound) as error:
                yield _report.skipped(f"Pod {name}", f"/readyz may not be asked: {error}")
            except ApiError as error:
                yield _report.error(f"Pod {name}", f"/readyz: {error.status.message}", "see docs/operate.md, readiness")


def _waiting(status: Json) -> str:
    """Return why a container of a pod does not run; empty if all do, or the kubelet has not reported."""
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        if waiting := state.get("waiting"):
            last = ((container.get("lastState") or {}).get("terminated") or {}).get("message", "")
            return f"{waiting.get('reason', 'waiting')}: {waiting.get('message') or last or 'no message'}"
    return ""


async def _leader(cluster: Cluster, replicas: int) -> Finding:
    election = cluster.installation.configuration.leader_election
    name = election.resource_name
    if not election.leader_elect:
        if replicas > 1:
            fix = "set leaderElection.leaderElect: true"
            return _report.error("leader election", f"is off, and {replicas} replicas write side by side", fix)
        return _report.ok("leader election", "is off, with one replica")
    leases = await cluster.leases(name, election.resource_namespace or cluster.installation.namespace)
    holders = [holder for lease in leases if (holder := await cluster.holder(lease))]
    if not holders:
        return _report.error(
            f"Lease {name}", "no replica holds it, so none works", "see the operator's log: election.*"
        )
    return _report.ok(f"Lease {name}", f"{holders[0]} leads")
