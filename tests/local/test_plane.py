"""The control plane of local mode."""

from __future__ import annotations

import base64
import textwrap

import anyio
import pytest
import yaml
from structlog.testing import capture_logs

from ktrain.api.meta import Key
from ktrain.api.trainer import TRAINING_RUNTIMES
from ktrain.framework import Client
from ktrain.framework.env import system_env
from ktrain.framework.errors import Forbidden
from ktrain.local.apiserver.requests import User
from ktrain.local.plane import ControlPlane

PLUGIN = """
    from ktrain.api.meta import Object, Resource
    from ktrain.pipeline import Watch


    class Gang:
        name = "Gang"

        def watches(self):
            kind = Resource("gangs.example.com", "v1", "PodGroup", "podgroups", namespaced=True, type=Object)
            return (Watch(kind, owned=True),)
"""


async def test_an_installed_plugin_for_a_scheduler_that_is_not_here_does_not_keep_it_from_starting(
    tmp_path, monkeypatch
):
    (tmp_path / "a_gang_plugin.py").write_text(textwrap.dedent(PLUGIN))
    metadata = tmp_path / "a_gang_plugin-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a-gang-plugin\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[ktrain.plugins]\nGang = a_gang_plugin:Gang\n")
    monkeypatch.syspath_prepend(tmp_path)

    with capture_logs() as logs, anyio.fail_after(10):
        async with ControlPlane(system_env(), pods="off").running():
            pass

    assert [entry["kind"] for entry in logs if entry["event"] == "plugin.kind_left_out"] == [
        "podgroups.gangs.example.com"
    ]


async def test_with_the_gate_off_runtimes_with_native_gangs_are_refused():
    spec = {"podGroupPolicy": {"workload": {}}, "template": {"spec": {"replicatedJobs": []}}}
    head = {"apiVersion": TRAINING_RUNTIMES.api_version, "kind": "TrainingRuntime"}
    body = {**head, "metadata": {"name": "rt", "namespace": "default"}, "spec": spec}
    with anyio.fail_after(20):
        async with ControlPlane(system_env(), pods="off", native_gangs=False).running() as plane:
            client = Client(plane.transport, system_env(), field_manager="test")
            with pytest.raises(Forbidden, match=r"needs the operator's feature gate GenericWorkload, which is off"):
                await client.create(TRAINING_RUNTIMES, body)


async def test_users_are_asked_for_and_roles_count_unless_everybody_may_do_everything(tmp_path):
    seen = {}
    for authorization in ("RBAC", "AlwaysAllow"):
        plane = ControlPlane(
            system_env(),
            pods="off",
            listen=("127.0.0.1", 0),
            kubeconfig_file=tmp_path / authorization,
            authorization=authorization,
        )
        with anyio.fail_after(20):
            async with plane.running() as running:
                answer = await running.server.transport(User("ann")).request("GET", "/api/v1/nodes")
                published = running.server.find("", "v1", "configmaps", Key("default", "kube-root-ca.crt"))
        seen[authorization] = answer.status
        cluster = yaml.safe_load((tmp_path / authorization).read_text())["clusters"][0]["cluster"]
        trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
        assert published["data"] == {"ca.crt": trusted}

    assert seen == {"RBAC": 403, "AlwaysAllow": 200}
