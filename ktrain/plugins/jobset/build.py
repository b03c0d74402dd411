"""
Builds the JobSet. What the TrainJob says about its trainer is laid over the template last, so it wins over the runtime,
its patches and the other plugins.

Presence decides, not emptiness: an empty `command` clears the runtime's. The step and its container are found as in
`pipeline/steps.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api import jobset
from ktrain.api import trainer as api
from ktrain.api.meta import owner_reference
from ktrain.pipeline.journal import TRAIN_JOB, Author
from ktrain.pipeline.prepare import environment

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.pipeline.info import Info, PodSet


def build_job_set(info: Info) -> Json:
    """Return the JobSet of *info*, complete for server-side apply. Its spec is the Info's template, not a copy."""
    with info.journal.writing_as(Author(TRAIN_JOB)):
        for pod_set in info.pod_sets:
            if pod_set.ancestor == api.ANCESTOR_TRAINER:
                _trainer(info, pod_set)
    for pod_set in info.pod_sets:
        _without_empty_metadata(pod_set.job["template"])
    info.template.pop("suspend", None)
    if info.job.spec.suspend is not None:
        info.template["suspend"] = info.job.spec.suspend
    return {
        "apiVersion": f"{jobset.GROUP}/{jobset.VERSION}",
        "kind": "JobSet",
        "metadata": _metadata(info),
        "spec": info.template,
    }


def _without_empty_metadata(template: Json) -> None:
    """
    Leave out empty `metadata` of Job and pod templates.

    Where an earlier apply had labels and this one sends `{}`, server-side apply makes null of it and refuses its own
    result; nothing sent is nothing kept. (Go's typed objects always send it, so Kueue's patches get stuck.)
    """
    for holder in (template, template["spec"]["template"]):
        holder["metadata"] = {key: value for key, value in (holder.get("metadata") or {}).items() if value}
        if not holder["metadata"]:
            del holder["metadata"]


def _metadata(info: Info) -> Json:
    """The TrainJob's own labels and annotations do not go here: Kueue relies on that."""
    job = info.job.metadata
    metadata: Json = {"name": job.name, "namespace": job.namespace}
    if info.labels:
        metadata["labels"] = dict(info.labels)
    if info.annotations:
        metadata["annotations"] = dict(info.annotations)
    metadata["ownerReferences"] = [owner_reference(api.API_VERSION, "TrainJob", job.name, job.uid)]
    return metadata


def _trainer(info: Info, pod_set: PodSet) -> None:
    trainer, program = info.job.spec.trainer, info.program
    container = pod_set.step_container
    if container is None:
        return
    # A plugin's program also runs where the TrainJob says nothing of its trainer.
    if program.command is not None:
        container.set_command(program.command)
    if program.args is not None:
        container.set_args(program.args)
    if trainer is None:
        return
    if trainer.image is not None:
        container.set_image(trainer.image)
    container.set_env(*environment(trainer.env))
