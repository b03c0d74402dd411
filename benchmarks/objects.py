"""The objects that benchmarks write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktrain.api.meta import Json

NAMESPACE: Final = "default"


def train_job(name: str, *, command: list[str], nodes: int = 2, runtime: str = "plain") -> Json:
    """A TrainJob of one of the runtimes that ktrain ships."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": nodes, "command": command}},
    }


def job_set(name: str, *, variables: int = 0) -> Json:
    """A JobSet as the TrainJob above has it; each environment variable adds about 60 bytes."""
    env = [{"name": f"VARIABLE_{number:03}", "value": f"value of number {number}"} for number in range(variables)]
    container = {"name": "node", "image": "python:3.13-slim", "command": ["true"], "env": env}
    pod = {
        "metadata": {"labels": {"benchmark": "yes"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    job = {"backoffLimit": 0, "completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": pod}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}]},
    }
