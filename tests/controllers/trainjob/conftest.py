"""One TrainJob in every situation, for `decide`; and a whole world on virtual time, for the reconciler."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import structlog

from ktrain.api import jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Condition, Key, Object, ObjectMeta, OwnerReference
from ktrain.controllers.trainjob import snapshot as snapshots
from ktrain.controllers.trainjob.decide import decide
from ktrain.controllers.trainjob.observe import Check, Memory, Observed
from ktrain.pipeline import Context, Plugin, Registry
from ktrain.plugins.jobset import JOB_SET_STATES, JobSet, JobSetState
from ktrain.plugins.jobset.state import JobSetStateSpec
from ktrain.plugins.plainml import PlainML

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "rt", "namespace": "team", "uid": "rt-uid", "resourceVersion": "7"},
    "spec": {
        "mlPolicy": {"numNodes": 2},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {api.ANCESTOR_LABEL: "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}},
                        },
                    }
                ]
            }
        },
    },
}


def typed_runtime() -> api.Runtime:
    return msgspec.json.decode(msgspec.json.encode(RUNTIME), type=api.Runtime)


def meta(name: str, owner: str | None = "uid", **fields) -> ObjectMeta:
    owners = (OwnerReference(kind="TrainJob", name="job", uid=owner, controller=True),) if owner else ()
    return ObjectMeta(name=name, namespace="team", owner_references=owners, **fields)


@dataclass(frozen=True)
class Situation:
    """A TrainJob `team/job` with UID `uid`, an hour old, and its surroundings. Say what differs, then `decide()`."""

    suspend: bool = False
    spec: dict = field(default_factory=dict)
    status: api.TrainJobStatus = field(default_factory=api.TrainJobStatus)
    deleting: bool = False
    runtime: api.Runtime | None = field(default_factory=typed_runtime)
    snapshot: Object | None = None
    job_set: JobSetState | None = None
    memory: Memory = field(default_factory=Memory)
    checked: Check = Check.NONE
    plugins: tuple[Plugin, ...] = (JobSet(), PlainML())

    def but(self, **changes) -> Situation:
        return replace(self, **changes)

    @property
    def job(self) -> api.TrainJob:
        spec = {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}, "suspend": self.suspend}
        return api.TrainJob(
            metadata=ObjectMeta(
                name="job",
                namespace="team",
                uid="uid",
                resource_version="3",
                creation_timestamp=NOW - timedelta(hours=1),
                deletion_timestamp=NOW if self.deleting else None,
            ),
            spec=msgspec.json.decode(msgspec.json.encode(spec | self.spec), type=api.TrainJobSpec),
            status=self.status,
        )

    def decide(self):
        def lookup(resource, key):
            return self.job_set if (resource, key) == (JOB_SET_STATES, Key("team", "job")) else None

        context = Context(lookup, NOW, random.Random(1), structlog.get_logger(), lambda: 0.0)
        observed = Observed(
            self.job, self.runtime, self.snapshot, self.job_set, self.memory, context, {JOB_SET_STATES}, self.checked
        )
        return decide(observed, Registry(self.plugins))


def a_job_set(
    *,
    suspend: bool = False,
    owner: str | None = "uid",
    conditions: tuple[Condition, ...] = (),
    generation: int = 1,
    **more,
) -> JobSetState:
    status = jobset.JobSetStatus(conditions, replicated_jobs_status=(jobset.ReplicatedJobStatus("node", active=1),))
    metadata = meta("job", owner, uid="js-uid", generation=generation, **more)
    return JobSetState(metadata=metadata, spec=JobSetStateSpec(suspend), status=status)


@pytest.fixture
def fresh() -> Situation:
    """A TrainJob that nobody has looked at yet."""
    return Situation()


@pytest.fixture
def settled() -> Situation:
    """A TrainJob whose snapshot is taken and remembered."""
    memory = Memory(snapshot=snapshots.take(typed_runtime()), snapshot_version="9", had_children=True)
    return Situation(snapshot=Object(metadata=meta("job-runtime-snapshot", resource_version="9")), memory=memory)
