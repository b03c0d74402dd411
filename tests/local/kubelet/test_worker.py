"""The life of pods: the real kubelet against the embedded API server, with simulated processes, on virtual time."""

import asyncio
import base64
import signal

import pytest

from ktrain.api.core import PODS
from ktrain.api.meta import Key, find_condition, is_condition_true
from ktrain.local.apiserver.reading.logs import LogOptions
from ktrain.local.kubelet import worker
from ktrain.local.kubelet.restarts import RestartPolicy
from ktrain.local.sandbox.sim import Act

FOREVER = Act()
GOOD = Act(runs_s=1)


def by_command(acts):
    """A script that goes by the program's first word."""
    return lambda _sandbox, process: acts[process.argv[0]]


def in_turn(*acts):
    """A script whose programs do one thing after the other, the last one for ever."""
    left = list(acts)
    return lambda _sandbox, _process: left.pop(0) if len(left) > 1 else left[0]


def container(name, command=None, **fields):
    return {"name": name, "image": "i", "command": [command or name], **fields}


def main_status(pod):
    return pod.status.container_statuses[0]


def now():
    return asyncio.get_running_loop().time()


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


def test_the_whole_life_of_a_pod_costs_two_status_writes(simulate):
    async def scenario(world):
        created = await world.create()
        pod = await world.phase("Succeeded")

        assert int(pod.metadata.resource_version) - int(created.metadata.resource_version) == 2

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


def test_a_failing_container_restarts_with_growing_delays_until_it_succeeds(simulate):
    async def scenario(world):
        await world.create(restartPolicy="OnFailure")
        looping = await world.until(lambda pod: pod.status.container_statuses and main_status(pod).restart_count == 2)
        begun = now()
        pod = await world.phase("Succeeded")

        assert looping.status.phase == "Running"
        assert main_status(pod).restart_count == 3
        assert main_status(pod).last_state.terminated.exit_code == 1
        assert now() - begun > 20
        assert "BackOff" in await world.reasons()

    simulate(scenario, in_turn(*[Act(runs_s=1, exit_code=1)] * 3, GOOD))


def test_a_crash_loop_is_running_and_says_so(simulate):
    async def scenario(world):
        await world.create(restartPolicy="Always")
        pod = await world.until(
            lambda pod: pod.status.container_statuses and main_status(pod).state.waiting is not None, within_s=60
        )

        assert pod.status.phase == "Running"
        assert main_status(pod).state.waiting.reason == "CrashLoopBackOff"
        assert main_status(pod).state.waiting.message.startswith("back-off 10s restarting failed container=main pod=p_")

    simulate(scenario, Act(runs_s=1, exit_code=1))


def test_delays_between_restarts_are_a_setting(simulate):
    async def scenario(world):
        await world.create(restartPolicy="OnFailure")
        await world.phase("Succeeded", within_s=5)

    acts = in_turn(*[Act(runs_s=0.1, exit_code=1)] * 5, Act(runs_s=0.1))
    simulate(scenario, acts, restarts=RestartPolicy(first_s=0.1, longest_s=0.2))


def test_one_container_failing_does_not_end_the_others(simulate):
    async def scenario(world):
        await world.create(containers=[container("bad"), container("good")])
        pod = await world.phase("Failed")

        assert [c.state.terminated.exit_code for c in pod.status.container_statuses] == [1, 0]
        assert now() >= 60

    simulate(scenario, by_command({"bad": Act(runs_s=1, exit_code=1), "good": Act(runs_s=60)}))


def test_init_containers_run_one_by_one_before_the_others(simulate):
    async def scenario(world):
        await world.create(initContainers=[container("one"), container("two")], containers=[container("three")])
        waiting = await world.until(lambda pod: world.commands() == ["one"] and pod.status.start_time)
        await world.phase("Succeeded")

        assert world.commands() == ["one", "two", "three"]
        assert waiting.status.phase == "Pending"
        assert [c.ready for c in waiting.status.init_container_statuses] == [False, False]
        assert find_condition(waiting.status.conditions, "Initialized").status == "False"
        assert main_status(waiting).state.waiting.reason == "PodInitializing"

    simulate(scenario)


def test_a_failed_init_container_fails_the_pod(simulate):
    async def scenario(world):
        await world.create(initContainers=[container("bad")])
        pod = await world.phase("Failed")

        assert world.commands() == ["bad"]
        assert main_status(pod).state.waiting.reason == "PodInitializing"

    simulate(scenario, Act(runs_s=1, exit_code=2))


def test_sidecars_start_first_stop_last_and_do_not_keep_the_pod_alive(simulate):
    async def scenario(world):
        sidecars = [container("s1", restartPolicy="Always"), container("s2", restartPolicy="Always")]
        await world.create(initContainers=sidecars, containers=[container("main")])
        pod = await world.phase("Succeeded")

        assert world.commands() == ["s1", "s2", "main"]
        assert [c.state.terminated.exit_code for c in pod.status.init_container_statuses] == [143, 143]

    simulate(scenario, by_command({"s1": FOREVER, "s2": FOREVER, "main": GOOD}))


def test_a_sidecar_that_ends_is_started_again_whatever_the_pods_policy(simulate):
    async def scenario(world):
        sidecar = container("side", restartPolicy="Always")
        await world.create(initContainers=[sidecar], containers=[container("main")])
        pod = await world.phase("Succeeded")

        assert world.commands().count("side") > 1
        assert pod.status.init_container_statuses[0].restart_count >= 1

    simulate(scenario, by_command({"side": GOOD, "main": Act(runs_s=30)}))


def test_a_sidecar_is_waited_for_until_its_startup_probe_succeeds(simulate):
    async def scenario(world):
        probe = {"exec": {"command": ["probe"]}, "periodSeconds": 3, "failureThreshold": 5}
        sidecar = container("side", restartPolicy="Always", startupProbe=probe)
        await world.create(initContainers=[sidecar], containers=[container("main")])
        await world.phase("Succeeded")

        assert world.commands() == ["side", "probe", "probe", "probe", "main"]

    probes = in_turn(*[Act(runs_s=0, exit_code=1)] * 2, Act(runs_s=0))

    def script(sandbox, process):
        return {"side": FOREVER, "main": GOOD}.get(process.argv[0]) or probes(sandbox, process)

    simulate(scenario, script)


def test_a_deleted_pod_gets_sigterm_ends_and_goes(simulate):
    async def scenario(world):
        pod = await world.create(metadata={"finalizers": ["test/keep"]})
        await world.phase("Running")
        await world.delete()
        ended = await world.phase("Failed")
        await world.client.patch(PODS, Key("default", "p"), {"metadata": {"finalizers": None}})
        await world.gone()

        assert main_status(ended).state.terminated.exit_code == 143
        assert [p.signals[0] for p in world.executor.sandboxes[pod.metadata.uid].processes] == [signal.SIGTERM]

    simulate(scenario, FOREVER)


def test_who_ignores_sigterm_is_killed_when_the_grace_period_is_over(simulate):
    async def scenario(world):
        await world.create(terminationGracePeriodSeconds=20)
        await world.phase("Running")
        begun = now()
        await world.delete()
        await world.gone()

        assert 20 <= now() - begun < 21

    simulate(scenario, Act(on_term=None))


def test_a_second_deletion_can_shorten_the_grace_period(simulate):
    async def scenario(world):
        await world.create(terminationGracePeriodSeconds=1000)
        await world.phase("Running")
        await world.delete()
        await asyncio.sleep(5)
        begun = now()
        await world.delete(grace_s=2)
        await world.gone()

        assert now() - begun < 4

    simulate(scenario, Act(on_term=None))


def test_a_pod_deleted_by_force_is_killed_although_its_object_is_gone(simulate):
    async def scenario(world):
        pod = await world.create()
        await world.phase("Running")
        await world.delete(grace_s=0)
        await world.gone()
        await asyncio.sleep(1)

        assert await world.executor.sandboxes[pod.metadata.uid].processes[0].wait() == 137
        assert world.kubelet.statistics() == (0, 0)

    simulate(scenario, Act(on_term=None))


def test_a_pod_deleted_before_it_could_start_goes_at_once(simulate):
    async def scenario(world):
        volume = {"name": "v", "configMap": {"name": "missing"}}
        await world.create(volumes=[volume])
        await world.until(lambda pod: pod.status.start_time)
        begun = now()
        await world.delete()
        await world.gone()

        assert now() - begun < 2
        assert world.commands() == []

    simulate(scenario)


def test_pre_stop_runs_before_sigterm_and_within_the_grace_period(simulate):
    async def scenario(world):
        hook = {"preStop": {"exec": {"command": ["hook"]}}}
        pod = await world.create(containers=[container("main", lifecycle=hook)], terminationGracePeriodSeconds=10)
        await world.phase("Running")
        begun = now()
        await world.delete()
        await world.gone()
        main, hooked = world.executor.sandboxes[pod.metadata.uid].processes

        assert world.commands() == ["main", "hook"]
        assert hooked.signals[:1] == [signal.SIGKILL]
        assert main.signals[0] == signal.SIGTERM
        assert 10 <= now() - begun < 11

    simulate(scenario, by_command({"main": FOREVER, "hook": Act(on_term=None)}))


def test_a_failing_post_start_hook_ends_the_container(simulate):
    async def scenario(world):
        hook = {"postStart": {"exec": {"command": ["hook"]}}}
        await world.create(containers=[container("main", lifecycle=hook)])
        pod = await world.phase("Failed")

        assert main_status(pod).state.terminated.exit_code == 143
        assert "FailedPostStartHook" in await world.reasons()

    simulate(scenario, by_command({"main": FOREVER, "hook": Act(runs_s=1, exit_code=1)}))


def test_a_failing_liveness_probe_restarts_the_container(simulate):
    async def scenario(world):
        probe = {"exec": {"command": ["probe"]}, "periodSeconds": 5, "failureThreshold": 2}
        await world.create(containers=[container("main", livenessProbe=probe)], restartPolicy="Always")
        pod = await world.until(lambda pod: pod.status.container_statuses and main_status(pod).restart_count == 1)

        assert main_status(pod).last_state.terminated.exit_code == 143
        assert {"Unhealthy", "Killing"} <= set(await world.reasons())

    simulate(scenario, by_command({"main": FOREVER, "probe": Act(runs_s=0, exit_code=1)}))


def test_a_readiness_probe_decides_when_the_pod_is_ready(simulate):
    async def scenario(world):
        probe = {"exec": {"command": ["probe"]}, "periodSeconds": 10}
        await world.create(containers=[container("main", readinessProbe=probe)])
        running = await world.phase("Running")
        ready = await world.until(lambda pod: is_condition_true(pod.status.conditions, "Ready"))

        assert not is_condition_true(running.status.conditions, "Ready")
        assert main_status(ready).ready
        assert now() > 10

    probes = in_turn(Act(runs_s=0, exit_code=1), Act(runs_s=0))
    simulate(scenario, lambda sandbox, p: FOREVER if p.argv[0] == "main" else probes(sandbox, p))


def test_a_pod_that_runs_too_long_fails_with_deadline_exceeded(simulate):
    async def scenario(world):
        await world.create(activeDeadlineSeconds=30)
        pod = await world.phase("Failed")

        assert pod.status.reason == "DeadlineExceeded"
        assert main_status(pod).state.terminated.exit_code == 143
        assert 30 <= now() < 32

    simulate(scenario, FOREVER)


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
        assert sorted(path.name for path in directory.rglob("*.log")) == ["2.log", "3.log"]
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
