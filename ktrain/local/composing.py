"""The controllers of the control plane: those that a cluster runs, each under the name that it has there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktrain.controllers import jobset, runtimes, trainjob
from ktrain.controllers.build_info import expose_build
from ktrain.framework.client.client import Client
from ktrain.framework.events import EventRecorder
from ktrain.framework.manager.manager import Manager

from . import jobs

if TYPE_CHECKING:
    from ktrain.framework import Cache, Controller, Env
    from ktrain.framework.manager.groups import Runnable
    from ktrain.framework.metrics import Metrics
    from ktrain.pipeline.registry import Registry

    from .autoscaler.usage import CpuTimes
    from .status_server import StatusService

# A user waits for what failed to be tried again; ten seconds, doubling to minutes, protect a cluster.
JOB_TUNING: Final = jobs.Tuning(backoff_base_s=1.0, backoff_cap_s=60.0)


@dataclass(frozen=True, slots=True)
class Composed:
    """The controllers, to be run as one."""

    manager: Manager
    for_pods: EventRecorder
    """For what kubelets report; the manager runs it."""


async def compose(
    client: Client,
    cache: Cache,
    env: Env,
    registry: Registry,
    *,
    jobsets: jobset.Gates | None,
    places_pods: bool,
    shows_state: bool = True,
    cpu_times: CpuTimes | None = None,
    status_service: StatusService | None = None,
    metrics: Metrics | None = None,
) -> Composed:
    """
    Make the controllers. `jobsets`: the gates of the JobSet controller, None for none of it. `status_service`: where
    pods report their progress, if they may. `shows_state`: whether TrainJobs have a state in their status. `cpu_times`:
    what pods have used, for autoscalers; None: none works here. `metrics`: where all of them count.

    Raises:
        FrameworkError: The server did not say which kinds it serves.
    """
    registry = await trainjob.without_unserved(registry, client)

    # Events and managedFields say who wrote, by the names that these components have in a cluster.
    def writes_as(field_manager: str) -> Client:
        return Client(client.transport, env, field_manager=field_manager, metrics=metrics)

    def reports_as(component: str, *, by_version: bool = False, older: bool = False) -> EventRecorder:
        return EventRecorder(client, env, component=component, by_version=by_version, older=older, metrics=metrics)

    plugins = status_service.config if status_service is not None else {}
    followers: list[Runnable] = [status_service.server(client, cache, env)] if status_service is not None else []
    # Each by the API that it has there.
    for_train_jobs = reports_as(trainjob.COMPONENT)
    for_jobsets = reports_as(jobset.COMPONENT, by_version=True)
    for_jobs = reports_as("job-controller", older=True)
    for_pods = reports_as("kubelet", older=True)
    services = [for_train_jobs, for_jobsets, for_jobs, for_pods]
    if metrics is not None:
        registry.calls.expose(metrics)
        expose_build(metrics, registry)
        if (job_metrics := trainjob.make_job_metrics(metrics, cache, env)) is not None:
            followers.append(job_metrics)
    controllers: list[Controller] = [
        trainjob.make_controller(
            client,
            cache,
            env,
            for_train_jobs,
            registry,
            config=plugins,
            shows_state=shows_state,
            metrics=metrics,
        ),
        *runtimes.make_controllers(client, cache, env, metrics=metrics),
        *jobs.make_controllers(
            writes_as("kube-controller-manager"), cache, env, for_jobs, tuning=JOB_TUNING, metrics=metrics
        ),
    ]
    if jobsets is not None:
        writer = writes_as(jobset.FIELD_MANAGER)
        controllers += jobset.make_controllers(writer, cache, env, for_jobsets, gates=jobsets, metrics=metrics)
    if places_pods:
        # Loaded only where there are pods to place.
        from . import scheduler

        for_placing = reports_as(scheduler.COMPONENT)
        services.append(for_placing)
        gangs = await scheduler.serves_pod_groups(client)
        writer = writes_as("kube-scheduler")
        controllers.append(
            scheduler.make_scheduler(writer, cache, env, for_placing, has_pod_groups=gangs, metrics=metrics)
        )
    if cpu_times is not None:
        from . import autoscaler

        for_scaling = reports_as(autoscaler.COMPONENT)
        services.append(for_scaling)
        writer = writes_as("kube-controller-manager")
        controllers.append(autoscaler.make_controller(writer, cache, env, for_scaling, cpu_times, metrics=metrics))
    return Composed(Manager(cache=cache, controllers=controllers, services=services, runnables=followers), for_pods)
