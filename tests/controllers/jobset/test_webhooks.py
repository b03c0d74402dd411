"""The rules as webhooks: the answers a real API server gets, at the paths that the manifest names."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from ktrain.api.core import PERSISTENT_VOLUME_CLAIMS
from ktrain.controllers.jobset import Gates, JobSetPods
from ktrain.controllers.jobset.webhooks import MUTATE_JOBSETS, VALIDATE_JOBSETS, VALIDATE_PODS, make_handlers
from ktrain.framework import Cache, Client
from ktrain.framework.webhook import respond
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.testing.time import simulate

MANIFEST = Path(__file__).parents[3] / "config" / "jobset" / "webhooks.yaml"
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data-js", "namespace": "default"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def handlers(env):
    server = make_server(env, Registry(()))
    client = Client(server.transport(), env, field_manager="test")
    return client, make_handlers(client, Gates(), JobSetPods(Cache(client, env)))


@pytest.fixture
def ask():
    """Send a review to a path; returns the response."""

    def review(path, obj, *, old=None, existing=None):
        async def scenario(env):
            client, served = handlers(env)
            if existing is not None:
                await client.create(PERSISTENT_VOLUME_CLAIMS, existing)
            request = {
                "uid": "u",
                "name": "js",
                "namespace": "default",
                "operation": "CREATE" if old is None else "UPDATE",
                "object": obj,
                "oldObject": old,
            }
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            return (await respond(served[path], msgspec.json.encode(body)))["response"]

        return simulate(scenario)

    return review


def jobset(**spec):
    pod = {"spec": {"containers": [{"name": "main", "image": "none", "volumeMounts": [{"name": "data"}]}]}}
    template = {"spec": {"parallelism": 1, "completions": 1, "completionMode": "Indexed", "template": pod}}
    metadata = {"name": "js", "namespace": "default"}
    return {"metadata": metadata, "spec": {"replicatedJobs": [{"name": "a", "template": template}], **spec}}


def test_the_manifest_names_the_paths_that_are_served():
    documents = list(yaml.safe_load_all(MANIFEST.read_text()))
    named = {hook["clientConfig"]["service"]["path"] for document in documents for hook in document["webhooks"]}

    async def scenario(env):
        return set(handlers(env)[1])

    assert simulate(scenario) == named


def test_defaults_come_as_a_patch(ask):
    response = ask(MUTATE_JOBSETS, jobset())
    added = {change["path"]: change["value"] for change in msgspec.json.decode(response["patch"])}

    assert response["allowed"]
    assert added["/spec/successPolicy"] == {"operator": "All"}
    assert "patch" not in ask(MUTATE_JOBSETS, jobset(), old=jobset())


def test_a_refusal_carries_code_causes_and_object(ask):
    response = ask(VALIDATE_JOBSETS, jobset(managedBy="nobody"))
    status = response["status"]

    assert not response["allowed"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith(
        'JobSet.jobset.x-k8s.io "js" is invalid: spec.managedBy: Invalid value: "nobody"'
    )
    assert (status["details"]["kind"], status["details"]["group"]) == ("JobSet", "jobset.x-k8s.io")
    assert status["details"]["causes"][0]["field"] == "spec.managedBy"


def test_a_claim_that_exists_is_looked_up(ask):
    template = {"metadata": {"name": "data"}, "spec": CLAIM["spec"]}
    policies = [{"templates": [template], "retentionPolicy": {"whenDeleted": "Delete"}}]
    given = jobset(volumeClaimPolicies=policies)

    assert ask(VALIDATE_JOBSETS, given)["allowed"]
    refused = ask(VALIDATE_JOBSETS, given, existing=CLAIM)
    assert "retentionPolicy must be retain when PVC exists" in refused["status"]["message"]


def test_a_follower_without_leader_is_refused(ask):
    keys = {"jobset.sigs.k8s.io/jobset-name": "js"}
    marks = {**keys, "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    response = ask(VALIDATE_PODS, {"metadata": {"name": "p", "labels": keys, "annotations": marks}, "spec": {}})

    assert response["status"]["message"] == "follower pod node selector not set"
    assert response["status"]["code"] == 403
