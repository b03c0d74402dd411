"""The pipeline alone: from a TrainJob and its runtime to the bytes of what is applied, with all plugins installed."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec
import structlog

from ktrain import pipeline
from ktrain.api import assets
from ktrain.api.core import SECRETS
from ktrain.api.documents import load
from ktrain.api.meta import Object, ObjectMeta, OwnerReference
from ktrain.api.trainer import RuntimeSpec, TrainJob
from ktrain.pipeline import Registry
from ktrain.pipeline.points import Context

from .figures import Figure, Goal, Outcome
from .processes import in_turns
from .trainers import MPI, TORCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from ktrain.api.meta import Json, Key, Resource

    from .trainers import Kind


T = TypeVar("T")
UID: Final = "2f1d6a38-5a0e-4c1e-9d55-0d5c7e1f9b11"
_KEYS: Final = Object(metadata=ObjectMeta(owner_references=(OwnerReference(uid=UID, controller=True),)))


def plans(*, smoke: bool) -> Outcome:
    """The pipeline alone, from a TrainJob to the bytes of its objects: validated, planned, encoded."""
    count, runs = (2, 1) if smoke else (300, 9)
    registry = Registry.load()
    runtimes = {
        one.object["metadata"]["name"]: msgspec.json.decode(msgspec.json.encode(one.object["spec"]), type=RuntimeSpec)
        for one in load(assets.runtime_files())
    }
    figures: list[Figure] = []
    for name, kind, keys in ((TORCH.name, TORCH, None), (MPI.name, MPI, None), ("MPI, has its keys", MPI, _KEYS)):
        job, runtime = _job(kind), runtimes[kind.runtime]
        planned = partial(_plan, registry, job, runtime, keys)
        again = partial(_again, json.dumps(planned()[-1]))
        found = in_turns(runs, _us(count, planned), _us(count, again))
        baseline = Figure("json.loads + json.dumps of its JobSet", "us", found[1])
        figures.append(Figure(f"{name}: CPU for a TrainJob", "us", found[0], Goal(400), baseline))
    return Outcome(figures, [f"{len(registry.plugins)} plugins; in its first pass an MPI job draws a key pair"])


def _job(kind: Kind) -> TrainJob:
    body = kind.job("job-0001")
    body["metadata"]["uid"] = UID
    body["spec"]["trainer"]["env"] = [{"name": f"VARIABLE_{number}", "value": str(number)} for number in range(5)]
    body["spec"]["trainer"]["resourcesPerNode"] = {"limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}}
    return msgspec.json.decode(msgspec.json.encode(body), type=TrainJob)


def _plan(registry: Registry, job: TrainJob, runtime: RuntimeSpec, keys: Object | None) -> list[Json]:
    """Return the objects of a job, having encoded each of them; the JobSet is the last."""

    def lookup(resource: Resource[T], key: Key) -> T | None:  # noqa: ARG001 -- the signature
        return cast("T", keys) if resource == SECRETS else None

    ctx = Context(lookup, datetime.now(UTC), random.SystemRandom(), structlog.get_logger(), time.monotonic)
    if findings := pipeline.validate(registry, job, None, runtime, ctx).errors:
        raise RuntimeError(f"the benchmark's job is refused: {findings}")
    components = pipeline.plan(registry, job, runtime, ctx).components
    for component in components:
        msgspec.json.encode(component.body)
    return [component.body for component in components]


def _again(text: str) -> None:
    json.dumps(json.loads(text))


def _us(count: int, once: Callable[[], object]) -> Callable[[], float]:
    """Measure microseconds of CPU of one call."""

    def measure() -> float:
        started = time.process_time()
        for _ in range(count):
            once()
        return (time.process_time() - started) / count * 1e6

    return measure
