"""All checks side by side. A check that the API server refuses is a finding that names the missing right."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ktrain.cli import readiness
from ktrain.cli.config import Configuration
from ktrain.framework.errors import Forbidden, FrameworkError
from ktrain.framework.parallel import first_cause

from . import definitions, gangs, jobsets, leftovers, operators, platform, rights, webhooks
from .cluster import Cluster
from .finding import Finding, Reporter, Status
from .installation import ACCOUNTS, Installation, find_installation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ktrain.framework.client.client import Client

CHECKS: Final[dict[str, Callable[[Cluster], AsyncIterator[Finding]]]] = {
    "kubernetes": platform.check,
    "definitions": definitions.check,
    "jobset": jobsets.check,
    "operator": operators.check,
    "webhooks": webhooks.check,
    "rights": rights.check,
    "gangs": gangs.check,
    "leftovers": leftovers.check,
}
"""In the order of the report."""


async def examine(
    client: Client, namespace: str = "", *, installed: bool = False, configuration: Configuration | None = None
) -> list[Finding]:
    """
    Run all checks.

    Args:
        client: A user's, or the operator's own.
        namespace: Where the operator is looked for; empty: everywhere.
        installed: Whether an operator has to be there.
        configuration: The operator's, where its ConfigMap is not to be read.

    Raises:
        FrameworkError: The API server cannot be asked at all.
    """
    findings: list[Finding] = []
    try:
        installation = await find_installation(client, namespace, configuration)
    except Forbidden as error:
        advice = "name the operator's namespace (-n), or ask as an administrator"
        findings.append(Reporter("operator").skipped("Deployments", str(error), advice))
        # The operator's own account may not read Deployments, and knows that it is the operator's.
        account = await readiness.identity(client)
        is_operator = account.startswith(ACCOUNTS) and configuration is not None
        installation = Installation(
            account=account if is_operator else "", configuration=configuration or Configuration()
        )
    if installed and not installation.account:
        fix = "install it (docs/install.md), or name the namespace that it runs in (-n)"
        findings.append(Finding("operator", Status.ERROR, "operator", "no ktrain operator was found", fix))
    cluster = Cluster(client, installation)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_examine(name, cluster)) for name in CHECKS]
    return findings + [finding for each in running for finding in each.result()]


async def _examine(name: str, cluster: Cluster) -> list[Finding]:
    """Run one check as far as the API server lets it."""
    found: list[Finding] = []
    try:
        async for finding in CHECKS[name](cluster):
            found.append(finding)  # noqa: PERF401 -- what was found before a refusal counts
    except* FrameworkError as errors:
        error = first_cause(errors)
        advice = "ask as a user with this right" if isinstance(error, Forbidden) else "try again"
        found.append(Reporter(name).skipped("check", str(error), advice))
    except* (ValueError, KeyError, TypeError, AttributeError) as errors:
        # Objects of others may hold anything; the other checks go on.
        what = f"an object is not as it has to be: {first_cause(errors)!r}"
        found.append(Reporter(name).error("check", what, "look at the objects of this check with kubectl get -o yaml"))
    return found
