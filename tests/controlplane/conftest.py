"""
These tests run on the embedded server, and word for word on a real kube-apiserver when KUBEBUILDER_ASSETS is set.

So they may rest only on what both have: no admission rules, no kubelet, and a Job controller on one of them.
"""

from contextlib import asynccontextmanager

import anyio
import pytest

from ktrain.controllers import jobset, trainjob
from ktrain.framework import Cache, EventRecorder, Manager
from ktrain.pipeline import Registry


@pytest.fixture
def running(control_plane):
    """`async with running("trainjob", "jobset"):` runs these controllers as an operator does."""

    @asynccontextmanager
    async def run(*names):
        env = control_plane.env
        client = control_plane.client("trainer")
        cache = Cache(client, env)
        recorder = EventRecorder(client, env, component="test")
        makers = {
            "trainjob": lambda: trainjob.make_controller(client, cache, env, recorder, Registry.load()),
            "jobset": lambda: jobset.make_controller(client, cache, env, recorder),
        }
        manager = Manager(cache=cache, controllers=[makers[name]() for name in names], recorder=recorder)
        async with anyio.create_task_group() as tasks:
            await tasks.start(manager.run)
            yield
            tasks.cancel_scope.cancel()

    return run


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
