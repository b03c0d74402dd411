"""In which order the containers of a pod start, and start again."""

from ktrain.api.meta import find_condition
from ktrain.local.kubelet.restarts import RestartPolicy
from ktrain.local.sandbox.sim import Act

from .playing import FOREVER, GOOD, by_command, container, in_turn, main_status, now


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
