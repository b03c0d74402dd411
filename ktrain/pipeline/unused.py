"""
Which fields of a TrainJob change nothing of what is built for it.

Problem: a runtime decides what a field means. `numProcPerNode` is nothing to a runtime for JAX, and all of
`spec.trainer` is nothing to one without a trainer's step. Such a job runs, and not as its author wrote it.

Choice: ask the pipeline. The job is planned once as it is, and again with each field changed; a field after whose
changes every plan is the same has no effect. So there is no list of rules to keep in step with the plugins, and other
people's plugins count as well. A field that only another field of the same job overrides is not reported: it is tried
alone, too. That costs 2 to 4 ms, once for all jobs that say the same on the same runtime, but for values that no plugin
reads.

Rejected: a journal of reads (plugins read plain attributes), and a rule for each field and policy.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import structlog

from ktrain.api import trainer as api
from ktrain.api.core import SECRETS
from ktrain.api.meta import Object, ObjectMeta, OwnerReference

from .errors import PipelineError
from .points import Context
from .prepare import declared_environment, prepare
from .runner import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ktrain.api.meta import Json, JsonValue, Key, Resource

    from .info import Info
    from .registry import Registry

_STEPS: Final = {
    "trainer": api.ANCESTOR_TRAINER,
    "initializer.dataset": api.ANCESTOR_DATASET_INITIALIZER,
    "initializer.model": api.ANCESTOR_MODEL_INITIALIZER,
}
"""By the section of a TrainJob's spec: the step that it is about."""
_OVERRIDES: Final = ("podSpecOverrides", "podTemplateOverrides")
_IDENTITIES: Final = frozenset(("name", "manager", "targetJob", "targetJobs", "mountPath"))
"""Keys by which lists are merged: another value would be another element, and not a change of this one."""
_MOST_FIELDS: Final = 64
"""Fields that are tried; what a job says beyond them is not. The largest of ktrain's examples says 14."""
_MOST_BYTES: Final = 64 << 10
"""The most that a spec and its runtime may have to be tried: larger ones take long to plan, and to remember."""
_BUDGET_S: Final = 0.1
"""The event loop stands still meanwhile. Most jobs take milliseconds; for large ones and slow plugins it ends early."""
_AT: Final = datetime(2000, 1, 1, tzinfo=UTC)
_METADATA: Final = ObjectMeta(name="job", namespace="default", uid="uid")

Path = tuple[str | int, ...]


class Unused(NamedTuple):
    """Fields without effect, and why."""

    paths: tuple[str, ...]
    reason: str
    is_upstreams: bool = False
    """Whether Kubeflow Trainer is recorded to store such a job without a warning, so that admission gives none."""

    def __str__(self) -> str:
        return f"{', '.join(self.paths)}: no effect, because {self.reason}"


def unused(registry: Registry, job: api.TrainJob, runtime: api.RuntimeSpec, ctx: Context) -> tuple[Unused, ...]:
    """
    Return the fields of a new *job* that change nothing on *runtime*, by the reason.

    Pure: plugins see an empty cluster, and only the clock of *ctx* is read. A job that cannot be planned has none; its
    errors are reported elsewhere.
    """
    spec = msgspec.structs.replace(job.spec, suspend=None, managed_by=None, active_deadline_seconds=None)
    if not (spec.trainer or spec.initializer or spec.runtime_patches or any(_older(spec))):
        return ()
    encoded = msgspec.json.encode(spec if registry.foreign else _without_values(spec))
    described = msgspec.json.encode(runtime)
    if len(encoded) + len(described) > _MOST_BYTES:
        return ()
    return _unused(registry, encoded, described, ctx.monotonic)


def _without_values(spec: api.TrainJobSpec) -> api.TrainJobSpec:
    """
    Return a spec that stands for all whose image and variables have other values: no plugin of ktrain's asks for these.

    The jobs of a sweep differ in them, and in arguments, which only TorchTune reads.
    """
    trainer = spec.trainer
    if trainer is None:
        return spec
    names = [{"name": one.get("name", ""), "value": ""} for one in declared_environment(trainer.env)]
    same = msgspec.structs.replace(
        trainer,
        image=trainer.image and "image",
        args=("argument",) if trainer.args and (trainer.command or ())[:1] != ("tune",) else trainer.args,
        env=msgspec.Raw(msgspec.json.encode(names)) if names else trainer.env,
    )
    return msgspec.structs.replace(spec, trainer=same)


def _older(spec: api.TrainJobSpec) -> tuple[object, ...]:
    return spec.labels, spec.annotations, spec.pod_spec_overrides, spec.pod_template_overrides


@lru_cache(maxsize=256)
def _unused(registry: Registry, encoded: bytes, runtime: bytes, monotonic: Callable[[], float]) -> tuple[Unused, ...]:
    trial = _Trial(registry.uncounted(), msgspec.json.decode(runtime, type=api.RuntimeSpec), monotonic)
    spec: Json = msgspec.json.decode(encoded)
    try:
        if trial.built(spec) != trial.built(spec):
            return ()  # a plugin that never builds the same twice
        info = prepare(trial.job(spec), trial.runtime)
    except PipelineError:
        return ()
    found: dict[tuple[str, bool], list[str]] = {}
    for path in list(_paths(spec))[:_MOST_FIELDS]:
        if trial.is_over:
            break
        if not trial.has_effect(spec, path) and not trial.has_effect(_alone(spec, path), path):
            found.setdefault(_reason(path, info), []).append(_shown(path))
    return tuple(Unused(tuple(paths), *why) for why, paths in found.items())


class _Trial:
    """Plans one job again and again."""

    def __init__(self, registry: Registry, runtime: api.RuntimeSpec, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._monotonic = monotonic
        self._began_s = monotonic()
        self.runtime = runtime

    @property
    def is_over(self) -> bool:
        """Whether plans have taken so long that the rest is not tried."""
        return self._monotonic() - self._began_s > _BUDGET_S

    def job(self, spec: Json) -> api.TrainJob:
        decoded = msgspec.json.decode(msgspec.json.encode(spec), type=api.TrainJobSpec)
        return api.TrainJob(metadata=_METADATA, spec=decoded)

    def built(self, spec: Json) -> list[Json]:
        # Nothing that is drawn here is used: each plan must draw the same.
        ctx = Context(_lookup, _AT, Random(0), structlog.get_logger(), self._monotonic)  # noqa: S311
        return [component.body for component in plan(self._registry, self.job(spec), self.runtime, ctx).components]

    def has_effect(self, spec: Json, path: Path) -> bool:
        """Whether any change of a field changes what is built; an error is a change."""
        try:
            before = self.built(spec)
            return any(self.built(_with(spec, path, value)) != before for value in _others(_at(spec, path)))
        except (PipelineError, msgspec.ValidationError):
            return True


def _lookup(resource: Resource[Any], key: Key) -> Any:  # noqa: ANN401 -- any kind
    """Find only the job's Secrets, so that no plan has to draw keys."""
    if resource != SECRETS:
        return None
    owner = OwnerReference(api.API_VERSION, "TrainJob", _METADATA.name, _METADATA.uid, controller=True)
    return Object(metadata=ObjectMeta(name=key.name, namespace=key.namespace, owner_references=(owner,)))


def _paths(spec: Json) -> Iterator[Path]:
    """Yield the fields that are set, as far as one can be without effect and another not."""
    for section in _STEPS:
        path: Path = tuple(section.split("."))
        for key, value in (_at(spec, path) or {}).items():
            if value not in ({}, None) and (value != [] or key in ("command", "args")):
                yield (*path, key)
    for key in ("labels", "annotations"):
        if spec.get(key):
            yield (key,)
    for key in _OVERRIDES:
        yield from ((key, index) for index, _ in enumerate(spec.get(key) or ()))
    for index, _ in enumerate(spec.get("runtimePatches") or ()):
        path = ("runtimePatches", index, "trainingRuntimeSpec", "template")
        yield from ((*path, "metadata", key) for key in _at(spec, (*path, "metadata")) or ())
        jobs = _at(spec, (*path, "spec", "replicatedJobs")) or ()
        yield from ((*path, "spec", "replicatedJobs", place) for place, _ in enumerate(jobs))


def _at(value: Any, path: Path) -> Any:  # noqa: ANN401 -- JSON
    """Return what stands at *path*; None if nothing does."""
    for part in path:
        value = value[part] if isinstance(part, int) else (value or {}).get(part)
    return value


def _with(spec: Json, path: Path, value: JsonValue) -> Json:
    """Return a copy of *spec* with another value at *path*; None takes it away."""
    copy: Json = msgspec.json.decode(msgspec.json.encode(spec))
    *above, last = path
    holder = _at(copy, tuple(above))
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return copy


def _alone(spec: Json, path: Path) -> Json:
    """Return *spec* with nothing in the section of a field but that field, or without the other runtime patches."""
    if path[0] == "runtimePatches":
        patches = [one if index == path[1] else {"manager": one["manager"]} for index, one in enumerate(spec[path[0]])]
        return spec | {path[0]: patches}
    for section in _STEPS:
        parts = tuple(section.split("."))
        if path[: len(parts)] == parts:
            bare = {key: value for key, value in spec.items() if key not in ("trainer", "initializer")}
            only: JsonValue = {path[-1]: _at(spec, path)}
            for part in reversed(parts):
                only = {part: only}
            assert isinstance(only, dict)  # noqa: S101 -- for the type checker
            return {"trainer": {}, **bare, **only}
    return spec


def _others(value: JsonValue) -> Iterator[JsonValue]:
    """Yield other values for a field; first that it is not set."""
    yield None
    if isinstance(value, bool | None):
        return
    if isinstance(value, int):
        yield from (other for other in (value + 1, value + 2, value - 1) if other >= 0)
    elif isinstance(value, list):
        yield [*value, {"name": "KTRAIN_OTHER", "value": "other"} if value and isinstance(value[0], dict) else "other"]
    elif isinstance(value, dict) and value.keys() <= {"limits", "requests", "claims"}:
        yield value | {"limits": {**(value.get("limits") or {}), "example.com/other": "1"}}
    else:
        yield _changed(value, key="")


def _changed(value: JsonValue, key: str) -> JsonValue:
    """Return a value with other leaves, in the same places."""
    if isinstance(value, dict):
        is_reference = value.keys() == {"name"} and key.endswith("Ref")
        return {
            name: one if name in _IDENTITIES and not is_reference else _changed(one, name)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_changed(one, key) for one in value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return f"{value}x" if isinstance(value, str) else value


def _shown(path: Path) -> str:
    shown = "spec"
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}"
    return shown


def _reason(path: Path, info: Info) -> tuple[str, bool]:
    """Say why a field has no effect, and whether Kubeflow Trainer is recorded to be silent about it."""
    for section, name in _STEPS.items():
        parts = tuple(section.split("."))
        if path[: len(parts)] != parts:
            continue
        step = info.by_ancestor(name)
        if step is None:
            return f"no job of the runtime is labelled as the step {name}", False
        if step.step_container is None:
            return f"no container of the runtime's job {step.name} can be told to be that of the step {name}", False
        if path[-1] == "resourcesPerNode" and info.runtime.ml_policy is None:
            return "the runtime has no mlPolicy, which says what a node is", True
    if path[0] == "runtimePatches" and "metadata" in path:
        return "a JobSet gets labels and annotations, and its name from the TrainJob", False
    return "no policy or plugin of the runtime uses it", False
