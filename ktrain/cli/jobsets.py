"""
JobSets in `ktrain operator`: the controller that stands in for the JobSet operator, where it is asked for.

Two controllers on the same JobSets would delete and create against each other, so one that is at work already, which
its Lease shows, is an error at the start. A cluster without the kind is none: the controllers wait for its CRD, and
`/readyz` says so.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from ktrain.api.core import LEASES
from ktrain.controllers import jobset
from ktrain.controllers.jobset import webhooks
from ktrain.framework.errors import ApiError, FrameworkError
from ktrain.framework.events import EventRecorder

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ktrain.framework.client.client import Client
    from ktrain.framework.env import Env
    from ktrain.framework.operator.operator import Operator

    from .config import Configuration

log: FilteringBoundLogger = structlog.get_logger(__name__)

UPSTREAM_LEASE: Final = "6d4f6a47.jobset.x-k8s.io"
"""By which replicas of the JobSet operator elect the one that works."""
JOBSET_KIND: Final = "JobSet.jobset.x-k8s.io"


class Unfit(FrameworkError):
    """JobSets cannot be worked on in this cluster as it is; the message says what to do."""


async def add_jobsets(operator: Operator, configuration: Configuration) -> None:
    """
    Add the controllers of JobSets to an operator, and their webhooks if there are to be any.

    Raises:
        Unfit: The cluster has another controller for them.
        FrameworkError: The API server cannot be asked.
    """
    if not configuration.watch_namespaces:
        await _check_alone(operator.client, operator.env)
    gates = jobset.Gates.of(configuration.jobset.feature_gates)
    pods = jobset.JobSetPods(operator.cache)
    component = jobset.COMPONENT
    recorder = EventRecorder(
        operator.main.unguarded,
        operator.env,
        component=component,
        instance=f"{component}-{socket.gethostname()}",
        metrics=operator.metrics,
        by_version=True,
    )
    operator.add(recorder)
    for controller in jobset.make_controllers(
        operator.client.with_options(field_manager=jobset.FIELD_MANAGER),
        operator.cache,
        operator.env,
        recorder,
        gates=gates,
        max_concurrent_reconciles=configuration.controller.group_kind_concurrency.get(JOBSET_KIND, jobset.CONCURRENCY),
        patience_s=jobset.PATIENCE_S,
        pods=pods,
        defaults=not configuration.webhook.enable,
        metrics=operator.metrics,
        tracing=operator.tracing,
    ):
        operator.add(controller)
    if not configuration.webhook.enable:
        log.warning("jobset.without_webhooks", effect="JobSets have their defaults, and nothing refuses wrong ones")
    else:
        for path, handler in webhooks.make_handlers(operator.main.unguarded, gates, pods).items():
            operator.admission(path, handler)


async def _check_alone(client: Client, env: Env) -> None:
    """Refuse to work beside the JobSet operator. Without the right to look for its Lease that is the admin's care."""
    try:
        leases = (await client.list(LEASES, field_selector=f"metadata.name={UPSTREAM_LEASE}")).items
    except ApiError as error:
        log.info("jobset.leases_unseen", error=str(error))
        return
    for lease in leases:
        spec = lease.spec
        if not spec.holder_identity or spec.renew_time is None:
            continue
        age = env.clock.now() - spec.renew_time
        if age < timedelta(seconds=spec.lease_duration_seconds):
            raise Unfit(
                f"another JobSet controller works here: {spec.holder_identity} holds the lease {lease.key}, renewed"
                f" {max(age.total_seconds(), 0):.0f} s ago. Stop it, or leave jobset.enable off"
            )
