"""JobSets on the wire, to be defaulted and judged."""

from __future__ import annotations

from ktrain.controllers.jobset.admission import (
    refusals_on_create,
)


def replicated_job(name="a", /, *, job=None, pod=None, **fields):
    """A replicated job as it is after defaulting."""
    containers = [{"name": "main", "image": "none", "resources": {}}]
    pod_spec = {"restartPolicy": "OnFailure", "containers": containers, **(pod or {})}
    spec = {
        "parallelism": 1,
        "completions": 1,
        "completionMode": "Indexed",
        "template": {"metadata": {}, "spec": pod_spec},
        **(job or {}),
    }
    return {"name": name, "replicas": 1, "groupName": "default", "template": {"metadata": {}, "spec": spec}, **fields}


def document(*replicated_jobs, name="js", **spec):
    """A JobSet on the wire."""
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicatedJobs": list(replicated_jobs or [replicated_job()]), **spec},
    }


def refused(*replicated_jobs, **spec):
    """What is said against a new JobSet."""
    return [str(cause) for cause in refusals_on_create(document(*replicated_jobs, **spec))]
