"""
Checks of a runtime's steps before it is stored: each step, and its container, can be told from the others.

The texts on Job templates that are labelled as Kubeflow Trainer reads them are Kubeflow Trainer's. What it stored and
then ignored (labels of the pod templates, KEP-2170's form) works here, or is refused in our own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api import trainer as api
from ktrain.pipeline.findings import FieldError, Findings, invalid
from ktrain.pipeline.steps import CONTAINERS, Step, container_name, labels_of, step_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrain.api.meta import Json

LAUNCHER: Final = "launcher"
_MPI_JOBS: Final = ("node", LAUNCHER)
"""Jobs of an MPI runtime that get keys and the host file, with or without a step's label."""


def check_steps(runtime: Json) -> Findings:
    """Check a runtime's steps: one replica each, a container that can be told, and no two labels that differ."""
    spec: Json = runtime.get("spec") or {}
    template: Json = (spec.get("template") or {}).get("spec") or {}
    jobs: list[Json] = template.get("replicatedJobs") or []
    is_mpi = (spec.get("mlPolicy") or {}).get("mpi") is not None
    errors: list[FieldError] = []
    for index, replicated_job in enumerate(jobs):
        path = f"spec.template.spec.replicatedJobs[{index}]"
        errors += _step_errors(replicated_job, path, is_mpi=is_mpi)
        errors += _twice(replicated_job, jobs[:index], path)
    return Findings(tuple(errors))


def _step_errors(replicated_job: Json, path: str, *, is_mpi: bool) -> Iterator[FieldError]:
    yield from _contradiction(replicated_job, path)
    step = step_of(replicated_job)
    replicas = replicated_job.get("replicas", 1)
    if step.is_known and replicas != 1:
        yield invalid(f"{path}.replicas", replicas, "always must be 1")
    if not step.is_known and not (is_mpi and replicated_job.get("name") in _MPI_JOBS):
        return
    pods: Json = ((replicated_job.get("template") or {}).get("spec") or {}).get("template") or {}
    containers: list[Json] = (pods.get("spec") or {}).get("containers") or []
    if not containers and (step.on_pods or not step.is_known):
        return  # the schema refuses that
    if container_name(step, [str(container.get("name", "")) for container in containers]) is None:
        yield invalid(f"{path}.template.spec.template.spec.containers", containers, _unknown_container(step))


def _unknown_container(step: Step) -> str:
    if step.is_known and not step.on_pods:
        return f"must contain the required container for the ancestor: {step.name}"
    names = " or ".join(CONTAINERS[step.name if step.is_known else api.ANCESTOR_TRAINER])
    what = f"the step {step.name}" if step.is_known else "the ranks of the MPI job"
    return f"must contain one container named {names}, as there are several: {what} would run in it"


def _contradiction(replicated_job: Json, path: str) -> Iterator[FieldError]:
    on_job, on_pods = labels_of(replicated_job)
    if on_job and on_pods and on_job != on_pods and {on_job, on_pods} & CONTAINERS.keys():
        place = f"{path}.template.spec.template.metadata.labels[{api.ANCESTOR_LABEL}]"
        yield invalid(place, on_pods, f"must be {on_job}, as the label of the Job template is, or absent")


def _twice(replicated_job: Json, before: list[Json], path: str) -> Iterator[FieldError]:
    """Two Job templates of one step are Kubeflow Trainer's affair; where pod templates say so, neither may be meant."""
    step = step_of(replicated_job)
    for other in before:
        same = step_of(other)
        if step.is_known and same.name == step.name and (step.on_pods or same.on_pods):
            detail = f"must not be labelled as the step {step.name}: the job {other.get('name', '')} is that step"
            yield invalid(f"{path}.name", replicated_job.get("name", ""), detail)
            return
