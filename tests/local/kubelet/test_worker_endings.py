"""How a pod ends: deletion, hooks, probes, deadlines."""

import asyncio
import signal

from ktrain.api.core import PODS
from ktrain.api.meta import Key, is_condition_true
from ktrain.local.sandbox.sim import Act

from .playing import FOREVER, by_command, container, in_turn, main_status, now


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
