"""The admission rules behind HTTP."""

from __future__ import annotations

from pathlib import Path

import yaml

from ktrain.api import trainer as api
from ktrain.api.meta import Object, Resource
from ktrain.controllers.webhooks import VALIDATE_TRAIN_JOB, make_handlers
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.framework.webhook import AdmissionRequest, Denied
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
    assert set(followed) == {api.TRAINING_RUNTIMES.qualified_name, api.CLUSTER_TRAINING_RUNTIMES.qualified_name}


def test_the_manifest_names_the_paths_that_are_served():
    manifest = Path(__file__).parents[2] / "config" / "trainer" / "webhooks.yaml"
    documents = list(yaml.safe_load_all(manifest.read_text()))
    named = {hook["clientConfig"]["service"]["path"] for document in documents for hook in document["webhooks"]}

    async def scenario(env):
        client = Client(None, env, field_manager="test")
        return set(make_handlers(Cache(client, env), env, Registry([])))

    assert simulate(scenario) == named


REF = {"name": "rt", "kind": api.TRAINING_RUNTIMES.kind, "apiGroup": api.GROUP}
