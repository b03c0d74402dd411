"""The admission rules behind HTTP."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from structlog.testing import capture_logs

from ktrain.api import trainer as api
from ktrain.api.meta import Object, Resource
from ktrain.controllers.webhooks import VALIDATE_CLUSTER_RUNTIME, VALIDATE_TRAIN_JOB, make_handlers
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.errors import ApiError
from ktrain.framework.webhook import AdmissionRequest, Denied
from ktrain.local.server import make_server
from ktrain.pipeline import Findings, Registry
from ktrain.testing.time import simulate

NOWHERE = Resource("example.com", "v1", "Nothing", "nothings", namespaced=True, type=Object)


class Curious:
    """Looks for an object of a kind that nobody follows."""

    name = "Curious"

    def validate(self, info, job, old, ctx):
        assert ctx.lookup(NOWHERE, job.key) is None
        return Findings()


def test_a_lookup_of_a_kind_that_nobody_watches_finds_nothing_and_follows_nothing():
    async def scenario(env):
        cache = Cache(Client(None, env, field_manager="test"), env)
        handler = make_handlers(cache, env, Registry([Curious()]))[VALIDATE_TRAIN_JOB]
        job = {"metadata": {"name": "job", "namespace": "team"}, "spec": {"runtimeRef": REF}}
        return handler(AdmissionRequest(uid="1", operation="UPDATE", object=job, old_object=job)), cache.statistics()

    answer, followed = simulate(scenario)

    assert not isinstance(answer, Denied)
    ours = (api.TRAIN_JOBS, api.TRAINING_RUNTIMES, api.CLUSTER_TRAINING_RUNTIMES)  # plugins' indexes are over these
    assert set(followed) == {resource.qualified_name for resource in ours}


def test_hooks_find_their_section_of_the_configuration():
    class Acme:
        name = "Acme"

        def validate(self, info, job, old, ctx):
            return Findings(warnings=(f"limit {ctx.config['Acme']['limit']}",))

    async def scenario(env):
        cache = Cache(Client(None, env, field_manager="test"), env)
        handler = make_handlers(cache, env, Registry([Acme()]), {"Acme": {"limit": 7}})[VALIDATE_TRAIN_JOB]
        job = {"metadata": {"name": "job", "namespace": "team"}, "spec": {"runtimeRef": REF}}
        return handler(AdmissionRequest(uid="1", operation="UPDATE", object=job, old_object=job))

    assert "limit 7" in simulate(scenario).warnings


class Broken:
    name = "acme"

    def validate(self, info, job, old, ctx):
        return {}["port"]


SAID = (
    "plugin acme failed in CustomValidation for TrainJob team/job: KeyError: 'port'; nothing is wrong with the"
    " TrainJob: ask who runs ktrain to mend or uninstall the plugin, then submit it again"
)


def test_a_hook_that_raises_is_an_internal_error_in_one_line_and_its_traceback_is_in_the_log():
    async def scenario(env):
        cache = Cache(Client(None, env, field_manager="test"), env)
        handler = make_handlers(cache, env, Registry([Broken()]))[VALIDATE_TRAIN_JOB]
        job = {"metadata": {"name": "job", "namespace": "team"}, "spec": {"runtimeRef": REF}}
        return handler(AdmissionRequest(uid="1", operation="UPDATE", object=job, old_object=job))

    with capture_logs() as logs:
        answer = simulate(scenario)

    assert answer == Denied(SAID, 500, "InternalError")
    ((event, error),) = ((entry["event"], entry["exc_info"]) for entry in logs)
    assert event == "plugin.failed"
    assert isinstance(error.__cause__, KeyError)


def document(kind, name, spec):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def test_the_embedded_server_says_of_it_what_a_webhook_does():
    async def scenario(env):
        client = Client(make_server(env, Registry([Broken()])).transport(), env, field_manager="test")
        spec = {"template": {"spec": {"replicatedJobs": []}}}
        await client.create(api.TRAINING_RUNTIMES, document("TrainingRuntime", "rt", spec))
        job = document("TrainJob", "job", {"runtimeRef": REF})
        with pytest.raises(ApiError) as refused:
            await client.create(api.TRAIN_JOBS, job)
        return refused.value

    with capture_logs() as logs:
        error = simulate(scenario)

    webhook = 'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: '
    assert (error.code, error.status.message) == (500, webhook + SAID.replace("team/", "default/"))
    assert "request.failed" not in {entry["event"] for entry in logs}


def test_who_is_refused_is_warned_all_the_same():
    step = {"metadata": {"labels": {api.ANCESTOR_LABEL: "trainer"}}}
    spec = {"template": {"spec": {"replicatedJobs": [{"name": "node", "replicas": 2, "template": step}]}}}
    runtime = document("ClusterTrainingRuntime", "old", spec)
    runtime["metadata"] |= {"labels": {"trainer.kubeflow.org/support": "deprecated"}}

    async def scenario(env):
        cache = Cache(Client(None, env, field_manager="test"), env)
        handler = make_handlers(cache, env, Registry([]))[VALIDATE_CLUSTER_RUNTIME]
        path, body = api.CLUSTER_TRAINING_RUNTIMES.path(""), msgspec.json.encode(runtime)
        headers = {"Content-Type": "application/json"}
        transport = make_server(env, Registry([])).transport()
        refused = await transport.request("POST", path, body=body, headers=headers)
        return handler(AdmissionRequest(uid="1", operation="CREATE", object=runtime)), refused

    answer, refused = simulate(scenario)
    (warning,) = answer.warnings

    assert isinstance(answer, Denied)
    assert warning.startswith('ClusterTrainingRuntime "old" is deprecated')
    assert refused.status == 403
    assert refused.headers["warning"].startswith('299 - "ClusterTrainingRuntime \\"old\\" is deprecated')


def test_the_manifest_names_the_paths_that_are_served():
    manifest = Path(__file__).parents[2] / "config" / "trainer" / "webhooks.yaml"
    documents = list(yaml.safe_load_all(manifest.read_text()))
    named = {hook["clientConfig"]["service"]["path"] for document in documents for hook in document["webhooks"]}

    async def scenario(env):
        client = Client(None, env, field_manager="test")
        return set(make_handlers(Cache(client, env), env, Registry([])))

    assert simulate(scenario) == named


REF = {"name": "rt", "kind": api.TRAINING_RUNTIMES.kind, "apiGroup": api.GROUP}
