"""Rules of pods that are about what a process gets and sees, and when its pod is ready."""

import asyncio
import os

import pytest

from ktrain.api.core import PODS
from ktrain.api.meta import Key, is_condition_true
from ktrain.local.sandbox.sim import Act

FOREVER = Act()


def test_a_readiness_gate_that_somebody_opens_makes_the_pod_ready(simulate):
    async def scenario(world):
        await world.create(readinessGates=[{"conditionType": "test/Gate"}])
        pod = await world.phase("Running")
        assert not is_condition_true(pod.status.conditions, "Ready")

        gate = {"type": "test/Gate", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        patch = {
            "status": {"conditions": [*({"type": c.type, "status": c.status} for c in pod.status.conditions), gate]}
        }
        await world.client.patch(PODS, Key("default", "p"), patch, subresource="status")

        await world.until(lambda pod: is_condition_true(pod.status.conditions, "Ready"), within_s=5)

    simulate(scenario, FOREVER)


def test_a_changed_label_reaches_the_files_of_a_pod_at_once(simulate):
    async def scenario(world):
        files = [{"path": "color", "fieldRef": {"fieldPath": "metadata.labels['color']"}}]
        main = {"name": "main", "image": "i", "command": ["run"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        await world.create(containers=[main], volumes=[{"name": "v", "downwardAPI": {"items": files}}])
        await world.phase("Running")
        await world.client.patch(PODS, Key("default", "p"), {"metadata": {"labels": {"color": "blue"}}})
        await asyncio.sleep(1)

        [(_, process)] = world.executor.started
        assert (process.mounts[0].source / "color").read_text() == "blue"

    simulate(scenario, FOREVER)


def test_a_failing_liveness_probe_cannot_shorten_the_grace_of_a_pod_that_stops(simulate):
    async def scenario(world):
        probe = {"exec": {"command": ["no"]}, "periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 2,
                 "terminationGracePeriodSeconds": 1}  # fmt: skip
        main = {"name": "main", "image": "i", "command": ["run"], "livenessProbe": probe}
        await world.create(containers=[main], terminationGracePeriodSeconds=20)
        await world.phase("Running")
        begun = asyncio.get_running_loop().time()
        await world.delete()
        await world.gone()

        assert asyncio.get_running_loop().time() - begun == pytest.approx(20, abs=1)

    def script(_sandbox, process):
        return Act(runs_s=0, exit_code=1) if process.argv == ("no",) else Act(on_term=None)

    simulate(scenario, script)


def test_numerical_libraries_start_no_more_threads_than_the_container_may_use(simulate):
    async def scenario(world):
        limits = {"resources": {"limits": {"cpu": "1500m"}}}
        own = {"env": [{"name": "OMP_NUM_THREADS", "value": "7"}]}
        base = {"image": "i", "command": ["run"]}
        await world.create(
            containers=[{"name": "a", **base, **limits}, {"name": "b", **base, **limits, **own}, {"name": "c", **base}]
        )
        await world.phase("Succeeded")

        found = [process.env.get("OMP_NUM_THREADS") for _, process in world.executor.started]
        assert sorted(found, key=str) == ["2", "7", None]

    simulate(scenario, Act(runs_s=0))


@pytest.mark.e2e
async def test_a_volume_in_memory_is_shared_limited_and_has_sub_paths(real):
    async with real() as world:
        if world.kubelet._executor.name != "ns":
            pytest.skip("a plain directory on a shared host")
        volumes = [{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
        mounts = [{"name": "m", "mountPath": "/m"}, {"name": "m", "mountPath": "/s", "subPath": "sub/path"}]
        script = (
            "echo x > /s/file; cat /m/sub/path/file; stat -f -c %T /m; head -c 2000000 /dev/zero > /m/big || echo full"
        )
        _, log = await world.run("p", ["sh", "-c", script], volumes=volumes, container={"volumeMounts": mounts})

        assert log.splitlines()[:2] == ["x", "tmpfs"]
        assert log.endswith("full\n")


@pytest.mark.e2e
async def test_a_pod_may_have_names_of_its_own(real):
    async with real() as world:
        if world.kubelet._executor.name != "ns":
            pytest.skip("names are the machine's on a shared host")
        aliases = [{"ip": "192.0.2.7", "hostnames": ["printer"]}]
        _, log = await world.run("p", ["getent", "hosts", "printer"], hostAliases=aliases)

        assert log.split() == ["192.0.2.7", "printer"]


@pytest.mark.e2e
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give groups")
async def test_a_user_of_the_pods_group_reads_its_secrets_and_writes_its_volumes(real):
    async with real() as world:
        if world.kubelet._executor.name != "ns":
            pytest.skip("everything runs as the caller on a shared host")
        body = {"metadata": {"name": "s"}, "stringData": {"key": "value"}}
        await world.client.raw("POST", "/api/v1/namespaces/default/secrets", body=body)
        volumes = [
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "d", "emptyDir": {}},
        ]
        mounts = [{"name": "s", "mountPath": "/s"}, {"name": "d", "mountPath": "/d"}]
        context = {"runAsUser": 12345, "runAsGroup": 23456, "fsGroup": 34567}
        script = "id -G; cat /s/key; echo; touch /d/new && stat -c %g /d/new"
        container = {"volumeMounts": mounts, "workingDir": "/"}
        pod, log = await world.run(
            "p", ["sh", "-c", script], volumes=volumes, securityContext=context, container=container
        )

        assert pod.status.phase == "Succeeded", pod.status.container_statuses[0].state.terminated
        assert log.splitlines() == ["23456 34567", "value", "34567"]
