"""
Which replicated job is which step of a TrainJob, and which of its containers the step runs in.

Kubeflow Trainer reads the step from a label of the Job template, and finds the container by one name. KEP-2170 has the
label on the pod template, and other names. Both are read here, and nowhere else:

| | Kubeflow Trainer | KEP-2170 |
|---|---|---|
| label | `template.metadata.labels` | `template.spec.template.metadata.labels` |
| container of the trainer | `node` | `trainer`; `mpi-launcher` of MPI's launcher; the only one |
| container of an initializer | the step's name | the step's name; the only one |

The first of these counts. A step that is labelled on its Job template takes no container of another name, although it
is the only one: Kubeflow Trainer refuses such a runtime, or runs the container without what the TrainJob says. Where
only the pods are labelled, a `node` beside a `trainer` may be either of them, so neither counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ktrain.api import trainer as api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrain.api.meta import Json

CONTAINERS: Final = {
    api.ANCESTOR_TRAINER: (api.TRAINER_CONTAINER, "trainer", "mpi-launcher"),
    api.ANCESTOR_DATASET_INITIALIZER: (api.ANCESTOR_DATASET_INITIALIZER,),
    api.ANCESTOR_MODEL_INITIALIZER: (api.ANCESTOR_MODEL_INITIALIZER,),
}
"""By step: the names that its container may have, in the order in which they count."""


class Step(NamedTuple):
    """The step that a replicated job is labelled as; empty if it has no label."""

    name: str
    on_pods: bool
    """Whether only the pod template has the label."""

    @property
    def is_known(self) -> bool:
        """Whether a TrainJob can say something of it."""
        return self.name in CONTAINERS


def step_of(replicated_job: Json) -> Step:
    """Return the step of a replicated job: by its Job template's label, else by its pod template's."""
    on_job, on_pods = labels_of(replicated_job)
    return Step(on_job or on_pods, on_pods=bool(on_pods and not on_job))


def labels_of(replicated_job: Json) -> tuple[str, str]:
    """Return the step's label of the Job template and of the pod template; empty where there is none."""
    template: Json = replicated_job.get("template") or {}
    pods: Json = (template.get("spec") or {}).get("template") or {}
    return _label(template), _label(pods)


def container_name(step: Step, names: Sequence[str]) -> str | None:
    """
    Return which of a job's main containers, of these *names*, the step runs in; None if that cannot be told.

    A job without a known step may still be one that ranks run on, as MPI's `node`: its container is found like that of
    a trainer.
    """
    known = CONTAINERS.get(step.name) or CONTAINERS[api.ANCESTOR_TRAINER]
    found = [name for name in known if name in names]
    if found:
        return found[0] if len(found) == 1 or not step.on_pods else None
    is_upstreams = step.is_known and not step.on_pods
    return names[0] if len(names) == 1 and not is_upstreams else None


def _label(template: Json) -> str:
    label: str = ((template.get("metadata") or {}).get("labels") or {}).get(api.ANCESTOR_LABEL) or ""
    return label
