"""`RestartAllContainers`: a pod that begins again in its place because one of its containers ended so (KEP-5532)."""

import pytest

from ktrain.api.meta import find_condition
from ktrain.local.kubelet.restarts import RestartPolicy
from ktrain.local.sandbox.sim import Act

from .playing import FOREVER, container, now

RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]


def by_turn(acts):
    """Programs by their first word that do one thing after the other, the last one again and again."""
    left = {word: list(several) for word, several in acts.items()}
    return lambda _sandbox, process: (
        left[process.argv[0]].pop(0) if len(left[process.argv[0]]) > 1 else left[process.argv[0]][0]
    )


def asking(name="run", **fields):
    return container(name, restartPolicy="Never", restartPolicyRules=RULES, **fields)


def condition(pod):
    return find_condition(pod.status.conditions, "AllContainersRestarting")


def test_all_containers_start_anew_in_their_order_and_place(simulate):
    async def scenario(world):
        hook = {"preStop": {"exec": {"command": ["hook"]}}}
        inits = [container("prepare"), container("side", restartPolicy="Always")]
        mains = [asking(), container("other", lifecycle=hook)]
        await world.create(initContainers=inits, containers=mains, terminationGracePeriodSeconds=5)
        ip = (await world.phase("Running")).status.pod_ip
        await world.until(lambda pod: condition(pod).is_true)
        again = await world.until(lambda pod: all(s.restart_count == 1 for s in pod.status.container_statuses))
        assert (again.status.phase, again.status.pod_ip) == ("Running", ip)
        assert again.status.container_statuses[0].last_state.terminated.exit_code == 42
        assert [status.restart_count for status in again.status.init_container_statuses] == [1, 1]

        pod = await world.phase("Succeeded")

        for life in (world.commands()[:4], world.commands()[4:]):
            assert (life[:2], sorted(life[2:])) == (["prepare", "side"], ["other", "run"])
        assert (condition(pod).status, condition(pod).reason) == ("False", "PodCompleted")
        assert len(world.executor.sandboxes) == 1

    good, ends_when_killed = Act(runs_s=1), Act(on_term=None)
    turns = {"prepare": [good], "side": [FOREVER], "run": [Act(runs_s=3, exit_code=42), good]}
    simulate(scenario, by_turn(turns | {"other": [ends_when_killed, good], "hook": [good]}))


@pytest.mark.parametrize(("code", "phase"), [(41, "Failed"), (0, "Succeeded")])
def test_other_exit_codes_mean_what_they_always_mean(simulate, code, phase):
    async def scenario(world):
        await world.create(containers=[asking()])
        pod = await world.phase(phase)
        assert pod.status.container_statuses[0].restart_count == 0
        assert not condition(pod).is_true

    simulate(scenario, Act(runs_s=1, exit_code=code))


def test_an_init_container_may_ask_too_and_who_asks_again_and_again_waits_longer(simulate):
    async def scenario(world):
        await world.create(initContainers=[asking("prepare")], containers=[container("run")])
        pod = await world.phase("Succeeded")
        assert pod.status.init_container_statuses[0].restart_count == 3
        assert now() >= 4 + 0 + 10 + 20
        assert world.commands() == ["prepare"] * 4 + ["run"]

    refuses, good = Act(runs_s=1, exit_code=42), Act(runs_s=1)
    turns = {"prepare": [refuses, refuses, refuses, good], "run": [good]}
    simulate(scenario, by_turn(turns), restarts=RestartPolicy())


def test_a_pod_that_starts_anew_can_be_deleted_meanwhile(simulate):
    async def scenario(world):
        await world.create(containers=[asking(), container("other")], terminationGracePeriodSeconds=20)
        await world.phase("Running")
        await world.until(lambda pod: condition(pod).is_true)
        await world.delete(grace_s=2)
        await world.gone()
        assert now() < 15

    simulate(scenario, by_turn({"run": [Act(runs_s=3, exit_code=42)], "other": [Act(on_term=None)]}))
