"""
The examples of the five documents that ktrain was asked for by, applied to the embedded server and to a real one.

`docs/compatibility/seeds.md` names the test of each field, rule and story. A file of `examples/` is one example, and
its head lists what was changed; the namespace is the test's own, as `kubectl -n` would choose one.
"""

from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from ktrain.api import trainer
from ktrain.api.core import untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.controllers.admission import default_runtime, with_processes
from ktrain.controllers.jobset.admission import default_jobset
from ktrain.framework.errors import NotFound

from ..controlplane.conftest import running  # noqa: F401 -- a fixture

EXAMPLES = Path(__file__).parent / "examples"
KINDS = {
    resource.kind: resource
    for resource in (trainer.TRAIN_JOBS, trainer.TRAINING_RUNTIMES, trainer.CLUSTER_TRAINING_RUNTIMES, JOBSETS)
}


DEFAULTS = {
    "TrainJob": with_processes,
    "TrainingRuntime": default_runtime,
    "ClusterTrainingRuntime": default_runtime,
    "JobSet": default_jobset,
}
"""What admission makes of an object, for the real server, where no webhook is installed."""


def documents(name):
    """The objects of an example."""
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def missing(sent, stored, path=""):
    """Yield the fields that were sent and are not stored: what a server dropped."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            yield from missing(value, stored[key], f"{path}.{key}") if key in stored else [f"{path}.{key}"]
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for index, (one, other) in enumerate(zip(sent, stored, strict=True)):
            yield from missing(one, other, f"{path}[{index}]")
    elif str(sent) != str(stored):  # an amount may be a number, and is stored as a text
        yield path


@pytest.fixture
async def apply(control_plane):
    """
    `await apply("trainer/torch-ddp.yaml", change)` creates the objects of an example and returns them as stored.

    `change` may edit each object first. An unknown field is refused by the server, and a dropped one by this fixture;
    not those of `moved`, which the server stores elsewhere.
    """
    client, made = control_plane.client(), []

    async def create(name, change=None, moved=()):
        stored = []
        for body in documents(name):
            resource = untyped(KINDS[body["kind"]])
            body["metadata"].pop("namespace", None)
            if resource.namespaced:
                body["metadata"]["namespace"] = control_plane.namespace
            if change:
                change(body)
            sent = DEFAULTS[body["kind"]](body) if control_plane.is_real else body
            found = await client.create(resource, sent, field_validation="Strict")
            made.append((resource, Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])))
            assert [path for path in missing(body, found) if path not in moved] == []
            stored.append(found)
        return stored

    yield create
    for resource, key in reversed(made):
        if not resource.namespaced:  # the namespace goes with all that is in it
            with suppress(NotFound):
                await client.delete(resource, key)


@pytest.fixture
def built(control_plane):
    """`await built("torch-ddp")` waits for the JobSet of a TrainJob; returns its pods by the name of their job."""

    async def wait(name):
        found = await control_plane.wait_for(untyped(JOBSETS), name, lambda one: one is not None)
        return Built(found)

    return wait


class Built:
    """A JobSet as it was built for a TrainJob."""

    def __init__(self, job_set):
        self.metadata, self.spec = job_set["metadata"], job_set["spec"]
        self.jobs = {job["name"]: job for job in self.spec["replicatedJobs"]}

    def job(self, name):
        """The spec of a job."""
        return self.jobs[name]["template"]["spec"]

    def pod(self, name):
        """The pod spec of a job."""
        return self.job(name)["template"]["spec"]

    def container(self, name, index=0):
        """A container of a job."""
        return self.pod(name)["containers"][index]

    def env(self, name):
        """The literal variables of the first container of a job."""
        return {entry["name"]: entry.get("value") for entry in self.container(name).get("env", ())}

    def size(self, name):
        """How many pods a job has."""
        return self.job(name)["parallelism"]
