"""Startup rules (KEP-672) where the cluster's definition of JobSet has none, as that of the JobSet operator."""

import copy

import anyio
import pytest

from ktrain.api.core import CUSTOM_RESOURCE_DEFINITIONS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.api.trainer import API_VERSION, TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.controllers.served_jobsets import StartupRulesCheck
from ktrain.controllers.trainjob.refusals import RULES_ADVICE
from ktrain.framework import Cache
from ktrain.framework.errors import NotFound
from ktrain.framework.webhook import AdmissionRequest

from ..waiting import until

DEFINITIONS = untyped(CUSTOM_RESOURCE_DEFINITIONS)
JOBSET_DEFINITION = Key("", "jobsets.jobset.x-k8s.io")
DOCUMENT = f"/openapi/v3/apis/{JOBSETS.group}/{JOBSETS.version}"


class Counting:
    """A client whose reads of the served schema are counted."""

    def __init__(self, client):
        self._client = client
        self.reads = 0

    async def raw(self, method, path, **options):
        assert path == DOCUMENT
        self.reads += 1
        return await self._client.raw(method, path, **options)


async def change(client, spec):
    stored = await client.get(DEFINITIONS, JOBSET_DEFINITION.name)
    await client.update(DEFINITIONS, {**stored, "spec": spec})

    async def is_served():
        document = (await client.raw("GET", DOCUMENT)).body
        return (b"waitForReplicatedJobsStatus" in document) is ("rules" in policy_of(spec))

    await until(is_served)


def policy_of(spec):
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
    return schema["properties"]["spec"]["properties"]["startupPolicy"]["properties"]


@pytest.fixture
async def without_rules(control_plane):
    """Serve a JobSet without the field until the end of the test; a call serves it again."""
    client = control_plane.client("admin")
    spec = (await client.get(DEFINITIONS, JOBSET_DEFINITION.name))["spec"]
    changed = copy.deepcopy(spec)
    del policy_of(changed)["rules"]
    await change(client, changed)
    yield lambda: change(client, spec)
    await change(client, spec)


@pytest.fixture
async def runtime(control_plane, pod_template):
    """Create the runtime `rt` with a startup rule; `await runtime(has_rules=False)` creates it without."""
    client, namespace = control_plane.client("admin"), control_plane.namespace
    names = {"data": "dataset-initializer", "node": "trainer"}
    jobs = [
        {
            "name": name,
            "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}},
                "spec": {
                    "template": {"spec": {**pod_template["spec"], "containers": [{"name": container, "image": "none"}]}}
                },
            },
        }
        for (name, step), container in zip(names.items(), ("dataset-initializer", "node"), strict=True)
    ]
    rule = {"targetReplicatedJobs": ["data"], "waitForReplicatedJobsStatus": "Succeeded"}

    async def write(*, has_rules=True):
        policy = {"startupPolicyOrder": "InOrder", **({"rules": [rule]} if has_rules else {})}
        body = {
            "apiVersion": API_VERSION,
            "kind": "TrainingRuntime",
            "metadata": {"name": "rt", "namespace": namespace},
            "spec": {"template": {"spec": {"startupPolicy": policy, "replicatedJobs": jobs}}},
        }
        await client.apply(TRAINING_RUNTIMES, body, force=True)

    await write()
    return write


def train_job(namespace):
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"}},
    }


async def test_the_trainjob_says_that_the_cluster_has_no_rules_and_starts_when_it_has(
    control_plane, running, runtime, without_rules
):
    client, namespace = control_plane.client("user"), control_plane.namespace
    async with running("trainjob"):
        await client.create(TRAIN_JOBS, train_job(namespace))

        async def diagnosis():
            return (await client.get(TRAIN_JOBS, "job", namespace)).status.diagnosis

        found = await until(diagnosis)
        assert found.reason == "Refused"
        assert ".spec.startupPolicy.rules: field not declared in schema" in found.message
        assert found.message.endswith(RULES_ADVICE)

        await without_rules()

        async def rules():
            return (await client.get(JOBSETS, "job", namespace)).spec.startup_policy.rules

        (rule,) = await until(rules, despite=(NotFound,), within_s=60)
        assert rule.target_replicated_jobs == ("data",)
        await until(diagnosis, lambda found: found is None)


async def test_admission_warns_of_rules_that_the_cluster_does_not_have(control_plane, runtime, without_rules):
    client = Counting(control_plane.client("webhook"))
    cache = Cache(control_plane.client("webhook"), control_plane.env)
    check = StartupRulesCheck(client, cache, control_plane.env, controls_jobsets=True)
    other = StartupRulesCheck(client, cache, control_plane.env, controls_jobsets=False)
    job = train_job(control_plane.namespace)
    request = AdmissionRequest(uid="1", operation="CREATE", object=job)

    async with anyio.create_task_group() as tasks:
        await tasks.start(cache.run)
        runtimes, name = cache.informer(TRAINING_RUNTIMES), Key(control_plane.namespace, "rt")
        await until(lambda: runtimes.get(name))
        (said,) = (await check(request)).warnings
        assert said == (
            'TrainingRuntime "rt" has startupPolicy.rules: this cluster\'s definition of JobSet has no such field, so '
            f"no JobSet can be created; {RULES_ADVICE}"
        )
        assert (await check(request)).warnings == (said,)
        assert client.reads == 1, "an answer is asked for once a minute"
        assert (await check(AdmissionRequest(uid="2", operation="UPDATE", object=job, old_object=job))).warnings == ()

        await without_rules()
        (said,) = (await other(request)).warnings
        assert "this operator runs without its JobSet controller" in said
        fresh = StartupRulesCheck(client, cache, control_plane.env, controls_jobsets=True)
        assert (await fresh(request)).warnings == (await fresh(request)).warnings == ()
        assert client.reads == 3

        await control_plane.client("admin").delete(TRAINING_RUNTIMES, name)
        await runtime(has_rules=False)
        await until(lambda: (found := runtimes.get(name)) and b'"rules"' not in bytes(found.spec))
        unread = StartupRulesCheck(client, cache, control_plane.env, controls_jobsets=False)
        assert (await unread(request)).warnings == ()
        assert client.reads == 3, "a job without rules costs no call"
        tasks.cancel_scope.cancel()
