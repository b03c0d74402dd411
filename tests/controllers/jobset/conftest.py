"""Hand-built worlds: JobSets and Jobs as the controller's caches would show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from ktrain.api.jobset import ChildJob, JobSet
from ktrain.api.meta import format_time
from ktrain.controllers.jobset import Observed, decide

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UID = "uid-js"
TEMPLATE = {
    "spec": {
        "parallelism": 1,
        "completions": 1,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}},
    }
}


def make_jobset(
    *replicated_jobs: Any, status: Any = None, annotations: Any = None, name: str = "js", **spec: Any
) -> JobSet:
    """A JobSet; a replicated job is a name, or a dict without what does not matter."""
    entries = [{"name": rj} if isinstance(rj, str) else rj for rj in replicated_jobs]
    document = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": UID,
            "resourceVersion": "7",
            "annotations": annotations or {},
        },
        "spec": {
            "network": {"enableDNSHostnames": True},
            "replicatedJobs": [{"template": TEMPLATE, **entry} for entry in entries],
            **spec,
        },
    }
    if status is not None:
        document["status"] = status
    return msgspec.json.decode(msgspec.json.encode(document), type=JobSet)


def make_job(
    short: str,
    end: str = "",
    *,
    attempt: Any = 0,
    suspend: bool = False,
    failed_s_ago: float = 0,
    reason: str = "BackoffLimitExceeded",
    message: str = "Job has reached the specified backoff limit",
    terminating: bool = False,
    parallelism: int = 1,
    completions: int | None = 1,
    tolerations: Any = (),
    start_time: bool = False,
    **status: Any,
) -> ChildJob:
    """The Job of slot `short` (`a-0`), as the Job controller has left it. `end` is a condition that is True."""
    rj, _, index = short.rpartition("-")
    when = format_time(NOW - timedelta(seconds=failed_s_ago))
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "js",
        "jobset.sigs.k8s.io/replicatedjob-name": rj,
        "jobset.sigs.k8s.io/job-index": index,
    }
    if attempt is not None:
        labels["jobset.sigs.k8s.io/restart-attempt"] = str(attempt)
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": UID, "controller": True}
    metadata: dict[str, Any] = {"name": f"js-{short}", "namespace": "ns", "uid": f"uid-{short}", "labels": labels}
    metadata["ownerReferences"] = [owner]
    if terminating:
        metadata["deletionTimestamp"] = when
    if end:
        condition = {"type": end, "status": "True", "reason": reason, "message": message, "lastTransitionTime": when}
        status["conditions"] = [condition]
    if start_time:
        status["startTime"] = when
    spec = {
        "parallelism": parallelism,
        "completions": completions,
        "suspend": suspend,
        "template": {"spec": {"tolerations": list(tolerations)}},
    }
    document = {"metadata": metadata, "spec": spec, "status": {"active": 0 if end or suspend else 1, **status}}
    return msgspec.json.decode(msgspec.json.encode(document), type=ChildJob)


@pytest.fixture(scope="session")
def jobset():
    """Builds JobSets."""
    return make_jobset


@pytest.fixture(scope="session")
def job():
    """Builds Jobs of the JobSet `js`."""
    return make_job


@pytest.fixture(scope="session")
def now():
    """The time of the pass."""
    return NOW


@pytest.fixture(scope="session")
def run():
    """Decides a pass: `run(jobset, *jobs)`."""

    def run_pass(jobset, *jobs, at=NOW, services=("js",), claims=()):
        return decide(Observed(jobset, tuple(jobs), frozenset(services), frozenset(claims)), at)

    return run_pass


@pytest.fixture(scope="session")
def condition():
    """Finds a condition in a decision: `condition(decision, "Failed")`."""

    def find(decision, type_):
        conditions = decision.status.conditions if decision.status else ()
        return next((c for c in conditions if c.type == type_), None)

    return find


@pytest.fixture(scope="session")
def counters():
    """The counters of a decision that are not 0: `{"a": {"ready": 1}}`."""

    def read(decision):
        entries = [msgspec.structs.asdict(entry) for entry in decision.status.replicated_jobs_status]
        return {e.pop("name"): {k: v for k, v in e.items() if v} for e in entries}

    return read
