"""
DatasetInitializer and ModelInitializer: a step of its own fetches what the TrainJob names, before the trainer starts.

The runtime brings the step: a replicated job with the initializer's ancestor label and a container of the same name,
which has a volume `initializer` mounted that the trainer shares. These plugins tell that container what to fetch. What
runs in it is up to its image; ktrain's own programs are `ktrain.initializers`.

The step is checked by the replicated job's name and told by its label, as in Kubeflow's Trainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from ktrain.api import trainer as api
from ktrain.pipeline.findings import Findings, invalid
from ktrain.pipeline.info import literal
from ktrain.pipeline.journal import TRAIN_JOB, Author
from ktrain.pipeline.prepare import environment

if TYPE_CHECKING:
    from ktrain.pipeline.info import Info
    from ktrain.pipeline.points import Context

STORAGE_URI: Final = "STORAGE_URI"
VOLUME: Final = "initializer"


class _Initializer:
    """What the two have in common."""

    _step: ClassVar[str]
    """Ancestor label, and name of replicated job and container."""
    _field: ClassVar[str]
    """Of `spec.initializer`."""

    def enforce_pod_spec(self, info: Info, ctx: Context) -> None:
        """Set URI, variables and Secret; a variable `STORAGE_URI` of the TrainJob wins over its URI."""
        asset = self._asset(info.job)
        if asset is None:
            return
        for pod_set in info.pod_sets:
            container = pod_set.step_container
            if pod_set.ancestor != self._step or container is None:
                continue
            with info.journal.writing_as(Author(TRAIN_JOB)):
                if asset.storage_uri is not None:
                    container.set_env(literal(STORAGE_URI, asset.storage_uri))
                container.set_env(*environment(asset.env))
                if asset.secret_ref:
                    container.add_env_from({"secretRef": msgspec.json.decode(asset.secret_ref)})

    def validate(self, info: Info | None, job: api.TrainJob, old: api.TrainJob | None, ctx: Context) -> Findings:
        """Refuse what the runtime has no step for."""
        if info is None or self._asset(job) is None or not (detail := self._missing(info)):
            return Findings()
        ref = job.spec.runtime_ref
        value = {"name": ref.name, "apiGroup": ref.api_group, "kind": ref.kind}
        return Findings((invalid("spec.runtimeRef", value, detail),))

    def _asset(self, job: api.TrainJob) -> api.AssetInitializer | None:
        initializer = job.spec.initializer
        asset: api.AssetInitializer | None = getattr(initializer, self._field) if initializer else None
        return asset

    def _missing(self, info: Info) -> str:
        """Say what the runtime lacks; nothing if it has all."""
        step = self._step
        pod_set = info.by_name(step)
        if pod_set is None:
            return f"must have {step} job when trainJob is configured with input {self._field}Config"
        container = pod_set.step_container if pod_set.ancestor == step else pod_set.main_container(step)
        if container is None and pod_set.container(step) is None:
            return f"must have container with name - {step} in the {step} job"
        mounts = (container.spec.get("volumeMounts") or ()) if container else ()
        if not any(mount.get("name") == VOLUME for mount in mounts):
            return f"must have volumeMount with name - {VOLUME} in container {step} of the {step} job"
        return ""


class DatasetInitializer(_Initializer):
    """Tells the step `dataset-initializer` what `spec.initializer.dataset` says."""

    name: Final = "DatasetInitializer"
    _step = api.ANCESTOR_DATASET_INITIALIZER
    _field = "dataset"


class ModelInitializer(_Initializer):
    """Tells the step `model-initializer` what `spec.initializer.model` says."""

    name: Final = "ModelInitializer"
    _step = api.ANCESTOR_MODEL_INITIALIZER
    _field = "model"
