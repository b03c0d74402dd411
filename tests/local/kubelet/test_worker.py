"""The life of pods: the real kubelet against the embedded API server, with simulated processes, on virtual time."""

import asyncio
import base64

import pytest

from ktrain.api.core import PODS
from ktrain.api.meta import Key, is_condition_true
from ktrain.local.apiserver.reading.logs import LogOptions
from ktrain.local.kubelet import worker
from ktrain.local.sandbox.sim import Act

from .playing import FOREVER, GOOD, by_command, container, in_turn, main_status


def test_a_pod_that_ends_well_succeeds_and_tells_its_story(simulate):
    async def scenario(world):
        await world.create()
        running = await world.phase("Running")
        pod = await world.phase("Succeeded")

        assert running.status.start_time is not None
        assert is_condition_true(running.status.conditions, "Ready")
        assert main_status(running).ready
        ended = main_status(pod).state.terminated
        assert (ended.exit_code, ended.reason) == (0, "Completed")
        assert not is_condition_true(pod.status.conditions, "Ready")
        [(sandbox, process)] = world.executor.started
        assert (sandbox.hostname, process.cwd, process.env["HOSTNAME"]) == ("p", "/work", "p")

    simulate(scenario)


@pytest.mark.parametrize(
    ("script", "is_kept_apart"),
    [
        (
            '\nread -r -d \'\' SCRIPT << EOM\n\ndef f(): ...\nf()\nEOM\nprintf "%s" "$SCRIPT" > "a.py"\npython "a.py"',
            True,
        ),
        ("printf '%s' 'f()' > a.py; python a.py", False),
    ],
)
def test_a_function_that_the_sdk_sends_does_not_write_its_source_over_the_users(simulate, script, is_kept_apart):
    async def scenario(world):
        await world.create(containers=[{"name": "main", "image": "i", "command": ["bash", "-c", script]}])
        await world.phase("Succeeded")

        [(_, process)] = world.executor.started
        assert process.cwd == (process.env["TMPDIR"] if is_kept_apart else "/work")

    simulate(scenario)


def test_the_whole_life_of_a_pod_costs_two_status_writes_and_an_event(simulate):
    async def scenario(world):
        created = await world.create()
        pod = await world.phase("Succeeded")

        assert int(pod.metadata.resource_version) - int(created.metadata.resource_version) == 3
        assert await world.reasons() == ["Started"]

    simulate(scenario)


def test_a_pod_that_fails_says_how_and_why(simulate):
    async def scenario(world):
        await world.create()
        pod = await world.phase("Failed")

        ended = main_status(pod).state.terminated
        assert (ended.exit_code, ended.reason, ended.message) == (3, "Error", "the disk is full")

    simulate(scenario, Act(runs_s=1, exit_code=3, says="the disk is full"))


def test_the_last_lines_of_the_log_stand_in_for_a_message_that_was_not_written(simulate):
    async def scenario(world):
        await world.create(containers=[container("main", terminationMessagePolicy="FallbackToLogsOnError")])
        pod = await world.phase("Failed")

        assert main_status(pod).state.terminated.message == "Traceback\nValueError: 7\n"

    simulate(scenario, Act(runs_s=1, exit_code=1, prints="Traceback\nValueError: 7\n"))


def test_a_program_that_was_killed_for_memory_is_oom_killed(simulate):
    async def scenario(world):
        await world.create(containers=[container("main", resources={"limits": {"memory": "1Gi"}})])
        pod = await world.phase("Failed")

        assert main_status(pod).state.terminated.reason == "OOMKilled"
        assert world.executor.started[0][1].memory_limit == 2**30

    simulate(scenario, Act(runs_s=1, exit_code=137, oom_killed=True))


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"command": ["nope"]}, "no such file: nope"), ({"args": []}, "images are not run")],
)
def test_a_container_that_cannot_be_started_fails_its_pod_with_the_reason(simulate, fields, message):
    async def scenario(world):
        await world.create(containers=[{"name": "main", "image": "torch", **fields}])
        pod = await world.phase("Failed")

        ended = main_status(pod).state.terminated
        assert (ended.exit_code, ended.reason) == (128, "StartError")
        assert message in ended.message
        assert "Failed" in await world.reasons()

    simulate(scenario, Act(cannot_start="no such file: nope"))


def test_missing_volumes_are_waited_for(simulate):
    async def scenario(world):
        volumes = [
            {"name": "v", "configMap": {"name": "settings"}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "c"}},
        ]
        mounts = [{"name": "v", "mountPath": "/etc/a/b"}, {"name": "d", "mountPath": "/etc/a", "subPath": "x"}]
        await world.create(volumes=volumes, containers=[container("main", volumeMounts=mounts)])
        waiting = await world.until(lambda pod: pod.status.start_time)
        await world.apply("ConfigMap", "settings", data={"k": "v"})
        await world.apply(
            "PersistentVolumeClaim",
            "c",
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        )
        await world.phase("Succeeded")

        assert waiting.status.phase == "Pending"
        assert main_status(waiting).state.waiting.reason == "ContainerCreating"
        assert "FailedMount" in await world.reasons()
        outer, inner = world.executor.started[0][1].mounts
        assert (outer.target, inner.target) == ("/etc/a", "/etc/a/b")
        assert (inner.source / "k").read_text() == "v"
        assert inner.read_only
        assert outer.source == world.executor.directory / "claims/default/c/x"

    simulate(scenario)


def test_changes_of_a_config_map_reach_a_running_pod(simulate):
    async def scenario(world):
        await world.apply("ConfigMap", "settings", data={"k": "old"})
        mounts = [{"name": "v", "mountPath": "/v"}]
        volumes = [{"name": "v", "configMap": {"name": "settings"}}]
        await world.create(volumes=volumes, containers=[container("main", volumeMounts=mounts)])
        await world.phase("Running")
        file = world.executor.started[0][1].mounts[0].source / "k"
        before = file.read_text()
        await world.client.raw(
            "PATCH",
            "/api/v1/namespaces/default/configmaps/settings",
            body={"data": {"k": "new"}},
            headers={"Content-Type": "application/merge-patch+json"},
        )
        await asyncio.sleep(70)

        assert (before, file.read_text()) == ("old", "new")

    simulate(scenario, FOREVER)


def test_a_missing_secret_key_is_a_config_error_until_it_is_there(simulate):
    async def scenario(world):
        env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]
        await world.create(containers=[container("main", env=env)])
        waiting = await world.until(
            lambda pod: pod.status.container_statuses and main_status(pod).state.waiting.reason.startswith("CreateC")
        )
        await world.apply("Secret", "s", data={"token": base64.b64encode(b"t").decode()})
        await world.phase("Succeeded")

        assert main_status(waiting).state.waiting.reason == "CreateContainerConfigError"
        assert waiting.status.phase == "Pending"
        assert world.executor.started[0][1].env["TOKEN"] == "t"

    simulate(scenario)


def test_gpus_are_divided_and_come_back_when_a_pod_has_ended(simulate):
    async def scenario(world):
        def gpu(name):
            return container(name, resources={"limits": {"nvidia.com/gpu": "1"}})

        await world.create("a", containers=[gpu("x")])
        await world.phase("Running", "a")
        await world.create("b", containers=[gpu("x")])
        refused = await world.phase("Failed", "b")
        await world.phase("Succeeded", "a")
        await world.create("c", containers=[gpu("x")])
        await world.phase("Succeeded", "c")

        assert [p.env["CUDA_VISIBLE_DEVICES"] for _, p in world.executor.started] == ["5", "5"]
        assert refused.status.reason == "UnexpectedAdmissionError"

    simulate(scenario, gpus=["5"])


def test_conditions_of_others_survive(simulate):
    async def scenario(world):
        await world.create()
        running = await world.phase("Running")
        condition = {"type": "test/Mine", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        others = [{"type": c.type, "status": c.status} for c in running.status.conditions]
        await world.client.patch(
            PODS, Key("default", "p"), {"status": {"conditions": [*others, condition]}}, subresource="status"
        )
        pod = await world.phase("Succeeded")

        assert is_condition_true(pod.status.conditions, "test/Mine")
        assert not is_condition_true(pod.status.conditions, "Ready")

    simulate(scenario, Act(runs_s=5))


def test_pods_of_other_nodes_and_ended_pods_are_left_alone(simulate):
    async def scenario(world):
        await world.create("elsewhere", bound=False, nodeName="other")
        await world.create("ended")
        await world.phase("Succeeded", "ended")
        await world.client.patch(PODS, Key("default", "ended"), {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(10)

        assert len(world.executor.started) == 1

    simulate(scenario)


def test_logs_are_kept_for_two_attempts_and_go_with_the_pod(simulate):
    async def read(world, **options):
        chunks = await world.kubelet.logs.open("default", "p", "main", LogOptions(**options))
        return b"".join([chunk async for chunk in chunks]).decode()

    async def scenario(world):
        pod = await world.create(restartPolicy="OnFailure")
        await world.phase("Succeeded")
        directory = world.executor.directory / "pods" / pod.metadata.uid

        assert (await read(world, previous=True), await read(world)) == ("two\n", "three\n")
        assert sorted(path.name for path in directory.rglob("*.log")) == ["main.2.log", "main.3.log"]
        await world.delete()
        await world.gone()
        await asyncio.sleep(1)
        assert not directory.exists()

    acts = [Act(runs_s=1, exit_code=1, prints="one\n"), Act(runs_s=1, exit_code=1, prints="two\n")]
    simulate(scenario, in_turn(*acts, Act(runs_s=1, prints="three\n")))


def test_peers_get_their_names_and_jobs_their_attempts(simulate):
    async def scenario(world):
        labels = {"jobset.sigs.k8s.io/jobset-uid": "js", "jobset.sigs.k8s.io/restart-attempt": "2"}
        await world.create(metadata={"labels": labels}, hostname="tj-node-0-0", subdomain="tj")
        await world.phase("Succeeded")
        sandbox = world.executor.started[0][0]

        assert sandbox.hostname == "tj-node-0-0"
        assert sandbox.names[0] == "tj-node-0-0.tj"
        assert sandbox.names[-1] == "tj-node-0-0.tj.default.svc.cluster.local"
        assert sandbox.attempt == "js-2"

    simulate(scenario)


def test_a_defect_costs_one_pod_and_is_told_in_its_status(simulate):
    def script(sandbox, process):
        if sandbox.name == "bad":
            raise ZeroDivisionError("oops")
        return GOOD

    async def scenario(world):
        await world.create("bad")
        await world.create("good")
        await world.phase("Succeeded", "good")
        pod = await world.phase("Failed", "bad")

        assert pod.status.reason == "InternalError"
        assert "oops" in pod.status.message
        assert main_status(pod).state.terminated.reason == "ContainerStatusUnknown"

    simulate(scenario, script)


def test_a_pod_that_cannot_be_cleared_away_ends_says_so_and_harms_no_other(simulate):
    async def scenario(world):
        pod = await world.create("stubborn")
        await world.create("good", containers=[container("good", "good")])
        await world.phase("Running", "stubborn")
        world.executor.sandboxes[pod.metadata.uid].cannot_kill = "the link is not ours to remove"
        await world.phase("Succeeded", "stubborn")
        await world.phase("Succeeded", "good")

        assert "FailedKillPod" in await world.reasons()
        assert world.kubelet.statistics() == (0, 2)

    simulate(scenario, by_command({"run": GOOD, "good": Act(runs_s=5)}))


def test_a_pod_whose_status_cannot_be_told_costs_no_other(simulate, monkeypatch):
    build = worker.pod_status

    def broken(pod, record, now):
        if pod.metadata.name == "bad":
            raise ZeroDivisionError("oops")
        return build(pod, record, now)

    async def scenario(world):
        await world.create("bad")
        await world.create("good")
        await world.phase("Succeeded", "good")

        assert world.kubelet.statistics() == (0, 2)

    monkeypatch.setattr(worker, "pod_status", broken)
    simulate(scenario)


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_a_pod_fails_when_its_sandbox_has_died_instead_of_trying_for_ever(simulate, policy):
    async def scenario(world):
        pod = await world.create(restartPolicy=policy)
        await world.phase("Running")
        await world.executor.sandboxes[pod.metadata.uid].kill()
        ended = await world.phase("Failed")

        assert ended.status.reason == "ContainerStatusUnknown"
        assert "sandbox" in ended.status.message
        assert len(world.executor.started) == 1

    simulate(scenario, FOREVER)
