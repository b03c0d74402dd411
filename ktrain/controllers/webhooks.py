"""
Our admission rules as webhook handlers, by the paths that Kubeflow Trainer's configurations name.

Lookups read the informers' caches, as admission must not wait. So a TrainJob created within milliseconds of its runtime
may be refused; the reconciler asks the same rules again, and there nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from ktrain.api import trainer as api
from ktrain.framework.webhook import Allowed, Denied
from ktrain.pipeline import Context

from . import admission
from .scope import is_watched
from .trainjob.indexes import Indexes
from .trainjob.lookups import informers_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Json, Key, Resource
    from ktrain.framework import Cache, Env
    from ktrain.framework.webhook import AdmissionHandler, AdmissionRequest
    from ktrain.pipeline import Registry

T = TypeVar("T")

_SUFFIX: Final = f"{api.GROUP.replace('.', '-')}-{api.VERSION}"
MUTATE_TRAIN_JOB: Final = f"/mutate-{_SUFFIX}-trainjob"
MUTATE_RUNTIME: Final = f"/mutate-{_SUFFIX}-runtime"
VALIDATE_TRAIN_JOB: Final = f"/validate-{_SUFFIX}-trainjob"
VALIDATE_RUNTIME: Final = f"/validate-{_SUFFIX}-trainingruntime"
_RUNTIMES: Final = (api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES)
VALIDATE_CLUSTER_RUNTIME: Final = f"/validate-{_SUFFIX}-clustertrainingruntime"


def make_handlers(
    cache: Cache, env: Env, registry: Registry, config: Mapping[str, Json] | None = None
) -> dict[str, AdmissionHandler]:
    """Make all handlers; their informers join the cache. `config` holds the sections of plugins, by plugin."""
    hooks = _Hooks(cache, env, registry, config or {})
    return {
        MUTATE_TRAIN_JOB: hooks.default_train_job,
        MUTATE_RUNTIME: hooks.default_runtime,
        VALIDATE_TRAIN_JOB: hooks.validate_train_job,
        VALIDATE_RUNTIME: hooks.validate_runtime,
        VALIDATE_CLUSTER_RUNTIME: hooks.validate_runtime,
    }


def _answer(verdict: admission.Verdict) -> Allowed | Denied:
    if verdict.allowed:
        return Allowed(warnings=verdict.warnings)
    if verdict.is_ours:
        return Denied(verdict.message, 500, "InternalError", warnings=verdict.warnings)
    return Denied(verdict.message, reason="Forbidden", warnings=verdict.warnings)


class _Hooks:
    """The handlers that need the world."""

    def __init__(self, cache: Cache, env: Env, registry: Registry, config: Mapping[str, Json]) -> None:
        self._config = config
        self._env = env
        self._registry = registry
        self._namespaces = cache.namespaces
        kinds = [kind for kind in (api.TRAIN_JOBS, *_RUNTIMES) if is_watched(cache, kind)]
        self._informers = informers_of(cache, kinds, registry.watches)
        self._indexes = Indexes(self._informers, registry.indexes)

    def default_train_job(self, request: AdmissionRequest) -> Allowed | Denied:
        if request.object is None:
            return Allowed()
        job = admission.with_processes(request.object)
        sized = admission.default_nodes(job, request.old_object, self._lookup)
        return Allowed(
            admission.default_train_job(sized, request.old_object, self._env.clock.now()),
            warnings=admission.hints(job, request.old_object),
        )

    def default_runtime(self, request: AdmissionRequest) -> Allowed | Denied:
        if request.object is None:
            return Allowed()
        return Allowed(admission.default_runtime(request.object, request.old_object))

    def validate_train_job(self, request: AdmissionRequest) -> Allowed | Denied:
        if request.object is None or (self._namespaces and request.namespace not in self._namespaces):
            return Allowed()  # what this operator does not watch, it does not run either
        context = Context.at_present(self._env, self._lookup, self._config, self._informers, self._indexes.find)
        return _answer(admission.validate_train_job(self._registry, request.object, request.old_object, context))

    def validate_runtime(self, request: AdmissionRequest) -> Allowed | Denied:
        if request.object is None or request.operation not in ("CREATE", "UPDATE"):
            return Allowed()
        context = Context.at_present(self._env, self._lookup, self._config, self._informers)
        return _answer(admission.validate_runtime(self._registry, request.object, request.old_object, context))

    def _lookup(self, resource: Resource[T], key: Key) -> T | None:
        informer = self._informers.get(resource)
        return None if informer is None else informer.get(key)
