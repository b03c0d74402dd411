"""What a Prometheus reads of `ktrain up`: the API server's own metrics and those of everything that runs beside it."""

from __future__ import annotations

import ssl

import aiohttp
import msgspec
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.framework.client.client import Client
from ktrain.framework.env import system_env
from ktrain.local.plane import ControlPlane
from tests.waiting import until

CREATED = "ktrain_trainjobs_created"
JOB = {
    "apiVersion": api.API_VERSION,
    "kind": "TrainJob",
    "metadata": {"name": "job", "namespace": "default"},
    "spec": {"runtimeRef": {"name": "plain"}, "trainer": {"image": "i", "command": ["true"]}},
}


def serving(tmp_path):
    control_plane = ControlPlane(
        system_env(), pods="off", listen=("127.0.0.1", 0), kubeconfig_file=tmp_path / "kc", metrics=True
    )
    return control_plane.running()


async def scrape(plane, token: str) -> tuple[int, str]:
    """Scrape as Prometheus does: with a bearer token, and the CA of the kubeconfig."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    authority = msgspec.convert(config["clusters"][0]["cluster"]["certificate-authority-data"], bytes).decode()
    context = ssl.create_default_context(cadata=authority)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{plane.url}/metrics", headers=headers, ssl=context) as answer,
    ):
        return answer.status, await answer.text()


async def test_a_scrape_with_the_token_of_the_kubeconfig_has_the_metrics_of_all_controllers(tmp_path):
    async with serving(tmp_path) as plane:
        client = Client(plane.transport, system_env(), field_manager="test")
        await client.create(core.untyped(api.TRAIN_JOBS), JOB)
        found = await until(lambda: families(plane), lambda found: any(s.value for s in found[CREATED]))
        controllers = {sample.labels["controller"] for sample in found["controller_runtime_reconcile"]}
        assert {"trainjob_controller", "jobset", "job", "job-orphans"} <= controllers
        assert {"workqueue_adds", "ktrain_plugin_call_duration_seconds", "ktrain_informer_objects"} <= found.keys()
        assert {"apiserver_request", "ktrain_build_info", "process_cpu_seconds"} <= found.keys()
        assert {sample.labels["runtime"] for sample in found["ktrain_trainjobs"]} == {"plain"}
        assert [name for name in found if name.endswith("_created")] == [CREATED]


async def families(plane) -> dict[str, list]:
    status, text = await scrape(plane, plane.token)
    assert status == 200
    found = [(family.name, family.samples) for family in text_string_to_metric_families(text)]
    assert len(found) == len(dict(found))
    return dict(found)


async def test_a_scrape_without_a_token_is_refused(tmp_path):
    async with serving(tmp_path) as plane:
        status, text = await scrape(plane, "")
    assert status in (401, 403)
    assert "ktrain_" not in text
