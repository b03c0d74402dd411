"""
These tests run on the embedded server, and word for word on a real kube-apiserver when KUBEBUILDER_ASSETS is set.

So they may rest only on what both have: no admission rules, no kubelet, and a Job controller on one of them.
"""

import json
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import pytest

from ktrain.api.core import untyped
from ktrain.api.meta import Key
from ktrain.api.trainer import TRAIN_JOBS, TRAINING_RUNTIMES
from ktrain.controllers import jobset, trainjob
from ktrain.framework import Cache, Client, EventRecorder, Manager, connect
from ktrain.local import jobs
from ktrain.pipeline import Registry
from ktrain.testing.proxy import fault_proxy

from .hooking import serving_webhooks
from .weather import Weather


@pytest.fixture
def running(control_plane):
    """
    `async with running("trainjob", "jobset", "job") as controllers:` runs these controllers as an operator does.

    But no Job controller beside a real one. Another transport, say one with faults, may be named.
    """

    @asynccontextmanager
    async def run(*names, transport=None):
        plane, env = control_plane, control_plane.env
        client = Client(transport or plane.transport, env, field_manager="trainer")
        cache = Cache(client, env)
        recorder = EventRecorder(client, env, component="test")
        registry = await trainjob.without_unserved(Registry.load(), client)
        gates = jobset.ELASTIC_TRAIN_JOBS
        shared = trainjob.SharedSnapshots(client, cache, for_new_jobs="shared snapshots" in names)
        makers = {
            "shared snapshots": lambda: [trainjob.make_collector(shared, cache, env)],
            "trainjob": lambda: [trainjob.make_controller(client, cache, env, recorder, registry, shared=shared)],
            "jobset": lambda: jobset.make_controllers(client, cache, env, recorder, gates=gates),
            "job": lambda: jobs.make_controllers(client, cache, env, recorder),
        }
        wanted = [name for name in names if not (name == "job" and plane.is_real)]
        chosen = [controller for name in wanted for controller in makers[name]()]
        manager = Manager(cache=cache, controllers=chosen, recorder=recorder)
        async with anyio.create_task_group() as tasks:
            await tasks.start(manager.run)
            yield chosen
            tasks.cancel_scope.cancel()

    return run


@pytest.fixture
async def weather(control_plane, running):
    """A namespace with runtimes, and the TrainJob controller behind a fault proxy."""
    async with fault_proxy(await control_plane.kubeconfig()) as proxy:
        transport = await connect(str(proxy.kubeconfig))
        try:
            scene = Weather(control_plane, proxy, lambda: running("trainjob", transport=transport))
            await scene.create_runtimes()
            yield scene
        finally:
            await transport.aclose()


@pytest.fixture
def webhooks(control_plane):
    """`async with webhooks(validate=..., mutate=..., conversion=...):` serves and registers them for this namespace."""
    return serving_webhooks(control_plane)


@pytest.fixture
def informing(control_plane):
    """`async with informing() as cache:` runs a cache."""

    @asynccontextmanager
    async def run():
        cache = Cache(control_plane.client(), control_plane.env)
        async with anyio.create_task_group() as tasks:
            await tasks.start(cache.run)
            yield cache
            tasks.cancel_scope.cancel()

    return run


@pytest.fixture
def client(control_plane):
    """A client that writes as `mine`."""
    return control_plane.client("mine")


@pytest.fixture
def key(control_plane):
    """Of the object `c`."""
    return Key(control_plane.namespace, "c")


@pytest.fixture
def config_map(control_plane):
    """A ConfigMap to send."""

    def body(name, data=None, **metadata):
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": control_plane.namespace, **metadata},
            "data": data or {},
        }

    return body


@pytest.fixture
def pod_template():
    """The template of a pod that is never run."""
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": "none"}]}}


@pytest.fixture
async def create_train_job(control_plane, pod_template):
    """Create the TrainJob `job` of a runtime with two nodes, whose pods may not fail; returns it."""
    client, namespace = control_plane.client(), control_plane.namespace
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"backoffLimit": 0, "completionMode": "Indexed", "template": pod_template},
    }
    runtime = {
        "apiVersion": TRAINING_RUNTIMES.api_version,
        "kind": "TrainingRuntime",
        "metadata": {"name": "rt", "namespace": namespace},
        "spec": {
            "mlPolicy": {"numNodes": 2},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}},
        },
    }
    await client.create(untyped(TRAINING_RUNTIMES), runtime)

    async def create(name="job", **spec):
        body = {
            "apiVersion": TRAIN_JOBS.api_version,
            "kind": "TrainJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}, **spec},
        }
        return await client.create(TRAIN_JOBS, body)

    return create


class Said(NamedTuple):
    """What a server said: a decoded answer."""

    status: int
    body: Any
    warnings: str

    @property
    def causes(self):
        """What is wrong, as (field, message), each once."""
        return {(cause.get("field"), cause["message"]) for cause in self.body["details"]["causes"]}


@pytest.fixture
def ask(control_plane):
    """`await ask("GET", "/api/v1/…")` sends a request as it is; `{ns}` in paths and bodies is the test's namespace."""

    async def send(method, path, body=None, content_type="application/json", accept="application/json"):
        path, _, query = path.replace("{ns}", control_plane.namespace).partition("?")
        data = None if body is None else json.dumps(body).replace("{ns}", control_plane.namespace).encode()
        headers = {"Content-Type": content_type, "Accept": accept}
        pairs = [tuple(pair.split("=", 1)) for pair in query.split("&") if pair]
        answer = await control_plane.transport.request(method, path, query=pairs, headers=headers, body=data)
        return Said(answer.status, json.loads(answer.body or b"null"), answer.headers.get("warning", ""))

    return send
