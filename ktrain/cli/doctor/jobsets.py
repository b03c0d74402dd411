"""The controller of JobSets: exactly one, ours (builtin) or the JobSet operator (external)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.jobset import JOBSETS
from ktrain.cli.jobsets import UPSTREAM_LEASE

from .finding import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .cluster import Cluster
    from .finding import Finding

_report: Final = Reporter("jobset")


async def check(cluster: Cluster) -> AsyncIterator[Finding]:
    """Find out who works on JobSets, and whether that fits the operator's configuration."""
    holders = [(lease.key, await cluster.holder(lease)) for lease in await cluster.leases(UPSTREAM_LEASE)]
    at_work = [f"{holder} (lease {key})" for key, holder in holders if holder]
    builtin = cluster.installation.configuration.jobset.enable
    operators = [one for product, one in cluster.installation.others if product == "JobSet operator"]
    subject = JOBSETS.qualified_name
    if not cluster.is_installed:
        if at_work or operators:
            yield _report.ok(subject, "the JobSet operator works here; install ktrain with jobset.mode=external")
        else:
            yield _report.ok(subject, "no controller works on JobSets; ktrain's own (jobset.mode=builtin) can")
    elif builtin and at_work:
        what = f"two controllers: ktrain's and the JobSet operator, {at_work[0]}"
        yield _report.error(subject, what, "remove the JobSet operator, or set jobset.mode=external")
    elif builtin:
        yield _report.ok(subject, "ktrain's controller works on them")
    elif at_work:
        yield _report.ok(subject, f"the JobSet operator works on them: {at_work[0]}")
    elif operators:
        what = "a Deployment of the JobSet operator exists, and no replica of it holds its lease"
        yield _report.warning(
            subject, what, "see that its pods run (kubectl get pods -A -l app.kubernetes.io/name=jobset)"
        )
    else:
        what = "no controller works on them, so TrainJobs would never get pods"
        yield _report.error(subject, what, "set jobset.mode=builtin, or install the JobSet operator")
