"""A control plane with state, started again: what clients hold of the first life works in the second."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest

from ktrain.api.meta import Key, Resource
from ktrain.framework import Client, connect
from ktrain.framework.env import system_env
from ktrain.local.apiserver.durability.errors import StateError
from ktrain.local.plane import ControlPlane

from ..waiting import until

MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=dict)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True, type=dict)
JOBS = Resource("batch", "v1", "Job", "jobs", namespaced=True, type=dict)
PODS = Resource("", "v1", "Pod", "pods", namespaced=True, type=dict)
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
JSON = {"Content-Type": "application/json"}
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture
def plane(tmp_path):
    def plane(kubeconfig="kubeconfig", **options):
        state, file = tmp_path / "state", tmp_path / kubeconfig
        return ControlPlane(
            system_env(), pods="off", listen=("127.0.0.1", 0), kubeconfig_file=file, state=state, **options
        )

    return plane


@asynccontextmanager
async def client_of(kubeconfig):
    transport = await connect(str(kubeconfig))
    try:
        yield Client(transport, system_env(), field_manager="test")
    finally:
        await transport.aclose()


async def test_a_kubeconfig_and_the_tokens_of_accounts_stay_valid(plane):
    async with plane().running() as first, client_of(first.kubeconfig) as client:
        made = await client.create(MAPS, {"metadata": {"name": "a", "namespace": "default"}, "data": {"k": "v"}})
        answer = await client.transport.request("POST", TOKEN, headers=JSON, body=b'{"spec":{}}')
        token = answer.body.partition(b'"token":"')[2].partition(b'"')[0].decode()

    async with plane("another").running() as second, client_of(first.kubeconfig) as client:
        assert (second.url, second.token) == (first.url, first.token)
        assert await client.get(MAPS, "a", "default") == made
        review = json.dumps({"spec": {"token": token}}).encode()
        who = await client.transport.request("POST", REVIEWS, headers=JSON, body=review)

    assert b"system:serviceaccount:default:default" in who.body


async def test_a_directory_is_one_control_planes_at_a_time(plane):
    async with plane().running():
        with pytest.raises(StateError, match="is in use by another process"):
            async with plane("another").running():
                pass


async def test_a_place_that_is_no_directory_is_refused_with_its_name(plane, tmp_path):
    (tmp_path / "state").write_text("a file")

    with pytest.raises(StateError, match=r"state cannot be used for state: File exists"):
        async with plane().running():
            pass


# The first attempt hangs until it is killed with its server; the second finds what the first has written.
SCRIPT = "test -f /data/begun && exit 0; touch /data/begun; sleep 1000"


def job(claim):
    mount = {"name": "data", "mountPath": "/data"}
    container = {"name": "c", "image": "none", "command": ["sh", "-c", SCRIPT], "volumeMounts": [mount]}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    return {"metadata": {"name": "j", "namespace": "default"}, "spec": {"backoffLimit": 3, "template": {"spec": pod}}}


@asynccontextmanager
async def program(tmp_path):
    """`ktrain up --state`, killed at the end; yields a client."""
    state, file = tmp_path / "state", tmp_path / "kubeconfig"
    command = (sys.executable, "-m", "ktrain", "up", "--state", str(state), "--kubeconfig", str(file))
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=os.environ
    )
    try:
        assert (await process.stdout.readline()).startswith(b"ready ")
        async with client_of(file) as client:
            yield client
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.mark.e2e
async def test_a_job_that_ran_when_the_server_was_killed_goes_on_with_its_data(tmp_path):
    async with program(tmp_path) as client:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await client.create(CLAIMS, {"metadata": {"name": "c", "namespace": "default"}, "spec": claim})
        await client.create(JOBS, job("c"))
        await until(lambda: asyncio.to_thread(lambda: list(tmp_path.glob("state/claims/**/begun"))), within_s=60)

        async def told():
            # Else nobody would know that it has begun, and it would begin again.
            return (await client.list(PODS, "default")).items[0]["status"]["phase"] == "Running"

        await until(told, within_s=60)
        (before,) = (await client.list(PODS, "default")).items

    async with program(tmp_path) as client:

        async def complete():
            status = (await client.get(JOBS, "j", "default")).get("status", {})
            return [c for c in status.get("conditions", []) if (c["type"], c["status"]) == ("Complete", "True")]

        await until(complete, within_s=60)
        pods = {pod["metadata"]["uid"]: pod["status"]["phase"] for pod in (await client.list(PODS, "default")).items}

    assert pods.pop(before["metadata"]["uid"]) == "Failed"
    assert list(pods.values()) == ["Succeeded"]


async def log(client, name, query=""):
    return (await client.raw("GET", f"/api/v1/namespaces/default/pods/{name}/log{query}")).body.decode()


@pytest.mark.e2e
async def test_what_pods_printed_before_the_server_was_killed_can_be_read_until_they_are_deleted(tmp_path):
    # The first attempt fails at once, the next one hangs until it is killed with its server, the last one ends.
    script = (
        "echo attempt; test -f /data/2 && exit 0; test -f /data/1 && touch /data/2 && sleep 1000; touch /data/1; exit 1"
    )

    def pod(name, policy, command):
        mount = {"name": "data", "mountPath": "/data"}
        container = {"name": "c", "image": "none", "command": ["sh", "-c", command], "volumeMounts": [mount]}
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        spec = {"restartPolicy": policy, "containers": [container], "volumes": [claim]}
        return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}

    async with program(tmp_path) as client:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await client.create(CLAIMS, {"metadata": {"name": "c", "namespace": "default"}, "spec": claim})
        await client.create(PODS, pod("done", "Never", "echo from before"))
        await client.create(PODS, pod("again", "OnFailure", f"date +%N; {script}"))

        async def ready():
            found = {p["metadata"]["name"]: p["status"] for p in (await client.list(PODS, "default")).items}
            (status,) = found["again"].get("containerStatuses") or [{}]
            hangs = status.get("restartCount") == 1 and "running" in status["state"]
            return hangs and found["done"].get("phase") == "Succeeded"

        await until(ready, within_s=60)
        hung = await log(client, "again")

    async with program(tmp_path) as client:

        async def ended():
            return (await client.get(PODS, "again", "default"))["status"]["phase"] == "Succeeded"

        assert await log(client, "done") == await log(client, "done", "?follow=true") == "from before\n"
        await until(ended, within_s=60)
        assert await log(client, "again") != hung
        assert await log(client, "again", "?previous=true") == hung

        uids = {pod["metadata"]["uid"] for pod in (await client.list(PODS, "default")).items}
        assert {path.name for path in (tmp_path / "state/logs").iterdir()} == uids
        for name in ("done", "again"):
            await client.delete(PODS, Key("default", name))
        await until(lambda: asyncio.to_thread(lambda: not list((tmp_path / "state/logs").iterdir())), within_s=60)
