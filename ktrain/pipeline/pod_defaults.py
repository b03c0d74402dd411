"""
Amounts that admission adds to the requests of pods: defaults of LimitRanges, and the overhead of a RuntimeClass.

Pods that a Job makes pass through the API server's LimitRanger and RuntimeClass plugins, so they request more than the
runtime's template says, and a gang has to reserve that. Kubeflow's Trainer 2.3 wakes suspended TrainJobs when these
objects change, and then computes the same numbers from the template alone; here the objects count. Without any of them
the numbers are the same.

Gang plugins put `WATCHES` among their watches and `RULES` into their `rbac`, and pass what they find here to `gang`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.api.core import LIMIT_RANGES, RUNTIME_CLASSES, LimitRange, RuntimeClass
from ktrain.api.meta import Key, Struct
from ktrain.framework.controller.predicates import Changed

from .points import WATCHED, Rule
from .watches import Index, Mapped, Suspended, Watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ktrain.api.meta import Json

    from .points import Context
    from .watches import World


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """The amounts that admission adds to the pods of one namespace."""

    requests: Mapping[str, str]
    """Requests of a container that names none, by resource."""
    context: Context

    @classmethod
    def of(cls, namespace: str, ctx: Context) -> PodDefaults:
        """
        Read the LimitRanges of *namespace*.

        Where several have a default for one resource, LimitRanger takes the one that it comes upon first; here that is
        the first by name.
        """
        found: dict[str, str] = {}
        for limit_range in sorted(ctx.find(LIMIT_RANGES_OF_NAMESPACE, namespace), key=lambda one: one.metadata.name):
            for item in limit_range.spec.limits or ():
                if item.type == "Container":
                    # The API server fills `default` and `defaultRequest` in this order when it stores the object.
                    found = item.min | item.max | item.default | item.default_request | found
        return cls(found, ctx)

    def container_requests(self, container: Json) -> Json:
        """
        Return what a container requests.

        A resource that has a limit and no request is requested up to its limit, which the API server writes before
        LimitRanger looks. Kubeflow's Trainer counts no limits; here they count only where a default would replace them.
        """
        resources: Json = container.get("resources") or {}
        requests: Json = resources.get("requests") or {}
        if not self.requests:
            return requests
        limits: Json = resources.get("limits") or {}
        return {**self.requests, **{name: limits[name] for name in self.requests if name in limits}, **requests}

    def overhead(self, pod: Json) -> Json | None:
        """Return what a pod needs besides its containers: as its template says, or else as its RuntimeClass does."""
        written: Json | None = pod.get("overhead")
        name = pod.get("runtimeClassName")
        if written or not name:
            return written
        found = self.context.lookup(RUNTIME_CLASSES, Key("", str(name)))
        return dict(found.overhead.pod_fixed) if found and found.overhead else None


# Whom changes of these objects concern


class _PodSpec(Struct, frozen=True):
    runtime_class_name: str | None = None


class _PodTemplate(Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _JobSpec(Struct, frozen=True):
    template: _PodTemplate = _PodTemplate()


class _JobTemplate(Struct, frozen=True):
    spec: _JobSpec = _JobSpec()


class _ReplicatedJob(Struct, frozen=True):
    template: _JobTemplate = _JobTemplate()


class _JobSetSpec(Struct, frozen=True):
    replicated_jobs: tuple[_ReplicatedJob, ...] = ()


class _JobSetTemplate(Struct, frozen=True):
    spec: _JobSetSpec = _JobSetSpec()


class _RuntimeSpec(Struct, frozen=True):
    """A runtime's `spec`, as far as it names RuntimeClasses."""

    template: _JobSetTemplate = _JobSetTemplate()


def _namespace(limit_range: LimitRange) -> Iterable[str]:
    return (limit_range.metadata.namespace,)


def _runtime_classes(runtime: api.Runtime) -> Iterable[str]:
    """Return the RuntimeClasses that a runtime's pods name. Few runtimes name any, and only those are decoded."""
    if b"runtimeClassName" not in bytes(runtime.spec):
        return ()
    try:
        jobs = msgspec.json.decode(runtime.spec, type=_RuntimeSpec).template.spec.replicated_jobs
    except msgspec.MsgspecError:
        return ()  # malformed: no TrainJob can be built of it, which its own diagnosis says
    return {name: None for job in jobs if (name := job.template.spec.template.spec.runtime_class_name)}


def _runtime_of_suspended(job: api.TrainJob) -> Iterable[str]:
    return (job.runtime_id,) if job.is_suspended and not job.is_finished else ()


def _suspended_jobs(runtime_class: RuntimeClass, world: World) -> list[Key]:
    """Return the suspended TrainJobs whose runtime names a RuntimeClass."""
    name = runtime_class.metadata.name
    runtimes = [runtime for index in RUNTIMES_BY_CLASS for runtime in world.find(index, name)]
    return [
        job.key for runtime in runtimes for job in world.find(SUSPENDED_BY_RUNTIME, f"{runtime.kind}/{runtime.key}")
    ]


LIMIT_RANGES_OF_NAMESPACE: Final = Index(LIMIT_RANGES, _namespace)
RUNTIMES_BY_CLASS: Final = tuple(
    Index(kind, _runtime_classes) for kind in (api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES)
)
"""Runtimes by the RuntimeClasses that their pods name."""
SUSPENDED_BY_RUNTIME: Final = Index(api.TRAIN_JOBS, _runtime_of_suspended)
"""Suspended TrainJobs by `TrainJob.runtime_id`."""
WATCHES: Final = (
    Watch(
        LIMIT_RANGES,
        Suspended(),
        predicate=Changed[LimitRange](lambda one: one.spec),
        indexes=(LIMIT_RANGES_OF_NAMESPACE,),
    ),
    Watch(
        RUNTIME_CLASSES,
        Mapped(_suspended_jobs),
        predicate=Changed[RuntimeClass](lambda one: one.overhead),
        indexes=(SUSPENDED_BY_RUNTIME, *RUNTIMES_BY_CLASS),
    ),
)
"""Constants, so that two plugins that watch the same are one watch."""
RULES: Final = (
    Rule((LIMIT_RANGES.group,), (LIMIT_RANGES.plural,), WATCHED, reason="requests of a gang's pods"),
    Rule((RUNTIME_CLASSES.group,), (RUNTIME_CLASSES.plural,), WATCHED, reason="overhead of a gang's pods"),
)
