"""Fixtures: YAML to typed objects, and a plan without a cluster."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import msgspec
import pytest
import structlog
import yaml

from ktrain.api import trainer as api
from ktrain.pipeline import Context, Registry, plan, validate
from ktrain.plugins.coscheduling import CoScheduling
from ktrain.plugins.flux import Flux
from ktrain.plugins.initializers import DatasetInitializer, ModelInitializer
from ktrain.plugins.jax import JAX
from ktrain.plugins.jobset import JobSet
from ktrain.plugins.mpi import MPI
from ktrain.plugins.plainml import PlainML
from ktrain.plugins.torch import ElasticTorch, Torch
from ktrain.plugins.volcano import Volcano
from ktrain.plugins.workload import Workload
from ktrain.plugins.xgboost import XGBoost

TRAINER_LABEL = "{trainer.kubeflow.org/trainjob-ancestor-step: trainer}"


class Kit:
    """Turns YAML into what the pipeline takes, and runs it over the built-in plugins. `L` is the trainer's label."""

    def __init__(self) -> None:
        frameworks = [Torch(), PlainML(), JAX(), XGBoost(), MPI(), Flux(), ElasticTorch()]
        gangs, initializers = [CoScheduling(), Volcano(), Workload()], [DatasetInitializer(), ModelInitializer()]
        self.registry = Registry([JobSet(), *frameworks, *gangs, *initializers])
        self.objects: dict = {}
        self.kinds = None

    @property
    def context(self) -> Context:
        return Context(
            lookup=lambda resource, key: self.objects.get((resource.plural, key)),
            now=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            random=random.Random(1),
            log=structlog.get_logger(),
            monotonic=lambda: 0.0,
            kinds=self.kinds,
        )

    def job(self, text: str) -> api.TrainJob:
        return msgspec.json.decode(msgspec.json.encode(load(text)), type=api.TrainJob)

    def runtime(self, text: str) -> api.RuntimeSpec:
        return msgspec.json.decode(msgspec.json.encode(load(text)["spec"]), type=api.RuntimeSpec)

    def plan(self, runtime: str, job: str):
        return self.plan_of(self.job(job), self.runtime(runtime))

    def plan_of(self, job: api.TrainJob, runtime: api.RuntimeSpec):
        return plan(self.registry, job, runtime, self.context)

    def job_set(self, runtime: str, job: str) -> dict:
        return self.objects_of(runtime, job)["JobSet"]

    def objects_of(self, runtime: str, job: str) -> dict:
        """The objects of a plan by kind: there is at most one of each."""
        return {component.resource.kind: component.body for component in self.plan(runtime, job).components}

    def container(self, runtime: str, job: str, index: int = 0) -> dict:
        spec = self.job_set(runtime, job)["spec"]["replicatedJobs"][index]
        return spec["template"]["spec"]["template"]["spec"]["containers"][0]

    def findings(self, runtime: str | None, job: str, old: str | None = None):
        return validate(
            self.registry,
            self.job(job),
            self.job(old) if old else None,
            self.runtime(runtime) if runtime else None,
            self.context,
        )

    def errors(self, runtime: str | None, job: str, old: str | None = None) -> list[str]:
        return [str(error) for error in self.findings(runtime, job, old).errors]

    def warnings(self, runtime: str, job: str) -> list[str]:
        return list(self.findings(runtime, job).warnings)


def load(text: str) -> dict:
    return yaml.safe_load(text.replace("labels: L", f"labels: {TRAINER_LABEL}"))


@pytest.fixture
def kit() -> Kit:
    return Kit()
