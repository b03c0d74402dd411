"""
What webhooks do on a cluster, done in process: our rules for TrainJobs and runtimes, as admission plugins. Those for
JobSets are in `jobset_admission`.

The rules themselves are plain functions in `ktrain.controllers`; here they meet the embedded server's seam. They read
the server's store and not a cache, so a TrainJob may follow its runtime at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from ktrain.api import trainer
from ktrain.controllers import admission as trainer_rules
from ktrain.local.apiserver.admission.chain import AdmissionPlugin, AdmissionRequest, AdmissionResponse
from ktrain.local.apiserver.errors import StatusError
from ktrain.pipeline import Context

if TYPE_CHECKING:
    from ktrain.api.meta import Resource
    from ktrain.framework import Env
    from ktrain.pipeline import Registry

    from .store_reader import StoreReader

T = TypeVar("T")

RUNTIME_PLURALS: Final = {
    trainer.TRAINING_RUNTIMES.plural: "validator.trainingruntime.trainer.kubeflow.org",
    trainer.CLUSTER_TRAINING_RUNTIMES.plural: "validator.clustertrainingruntime.trainer.kubeflow.org",
}
TRAIN_JOB_WEBHOOK: Final = "validator.trainjob.trainer.kubeflow.org"


def admission_plugins(env: Env, registry: Registry, reader: StoreReader) -> list[AdmissionPlugin]:
    """Make the plugins of one server, which ask the validations of the pipeline's plugins in `registry`."""
    rules = _Rules(env, registry, reader)
    return [
        AdmissionPlugin("trainjob-defaults", rules.default_train_job, mutating=True),
        AdmissionPlugin("runtime-defaults", rules.default_runtime, mutating=True),
        AdmissionPlugin("trainjob-rules", rules.validate_train_job),
        AdmissionPlugin("runtime-rules", rules.validate_runtime),
    ]


def is_write(request: AdmissionRequest, resource: Resource[T]) -> bool:
    """Whether an object of a kind is created or updated as a whole."""
    served = request.resource
    same = (served.group, served.plural) == (resource.group, resource.plural)
    return same and not request.subresource and request.operation in ("CREATE", "UPDATE")


def _answer(webhook: str, verdict: trainer_rules.Verdict) -> AdmissionResponse:
    if not verdict.allowed:
        code, reason = (500, "InternalError") if verdict.is_ours else (403, "Forbidden")
        message = f'admission webhook "{webhook}" denied the request: {verdict.message}'
        raise StatusError(code, reason, message, warnings=verdict.warnings)
    return AdmissionResponse(warnings=verdict.warnings)


class _Rules:
    """The rules that need to look around."""

    def __init__(self, env: Env, registry: Registry, reader: StoreReader) -> None:
        self._env = env
        self._registry = registry
        self._reader = reader

    def default_train_job(self, request: AdmissionRequest) -> AdmissionResponse | None:
        if not is_write(request, trainer.TRAIN_JOBS) or request.object is None:
            return None
        job, old = trainer_rules.with_processes(request.object), request.old_object
        sized = trainer_rules.default_nodes(job, old, self._reader.lookup)
        stamped = trainer_rules.default_train_job(sized, old, self._env.clock.now())
        return AdmissionResponse(stamped, warnings=trainer_rules.hints(job, old))

    def default_runtime(self, request: AdmissionRequest) -> AdmissionResponse | None:
        kinds = (trainer.TRAINING_RUNTIMES, trainer.CLUSTER_TRAINING_RUNTIMES)
        if request.object is None or not any(is_write(request, kind) for kind in kinds):
            return None
        return AdmissionResponse(trainer_rules.default_runtime(request.object, request.old_object))

    def validate_train_job(self, request: AdmissionRequest) -> AdmissionResponse | None:
        if not is_write(request, trainer.TRAIN_JOBS) or request.object is None:
            return None
        context = Context.at_present(self._env, self._reader.lookup, find=self._reader.find)
        verdict = trainer_rules.validate_train_job(self._registry, request.object, request.old_object, context)
        return _answer(TRAIN_JOB_WEBHOOK, verdict)

    def validate_runtime(self, request: AdmissionRequest) -> AdmissionResponse | None:
        webhook = RUNTIME_PLURALS.get(request.resource.plural)
        if webhook is None or request.resource.group != trainer.GROUP or request.object is None:
            return None
        labels = (request.object.get("metadata") or {}).get("labels") or {}
        if request.operation not in ("CREATE", "UPDATE") or labels.get(trainer_rules.UNCHECKED_LABEL) == "disabled":
            return None
        context = Context.at_present(self._env, self._reader.lookup, find=self._reader.find)
        verdict = trainer_rules.validate_runtime(self._registry, request.object, request.old_object, context)
        return _answer(webhook, verdict)
