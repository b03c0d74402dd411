"""Conditions of plugins and of other controllers, beside Kubeflow's own."""

from __future__ import annotations

import pytest

from ktrain.api import jobset
from ktrain.api import trainer as api
from ktrain.api.core import untyped
from ktrain.api.meta import Condition, Key, find_condition
from ktrain.plugins.jobset import JOB_SET_STATES

from .world import KEY, World, play

SAVED = "example.com/Checkpointed"
SEEN = {
    "type": "billing.example.com/Seen",
    "status": "True",
    "reason": "Counted",
    "message": "on the bill",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
    "observedGeneration": 1,
}


class Checkpoints:
    """Says that a job is checkpointed once its JobSet counts a pod as ready; or what it was told to say."""

    name = "Checkpoints"
    answer = None
    fails = False

    def conditions(self, job, ctx):
        if self.fails:
            raise RuntimeError("boom")
        if self.answer is not None:
            return self.answer
        status = getattr(ctx.lookup(JOB_SET_STATES, job.key), "status", None)
        ready = status is not None and any(one.ready for one in status.replicated_jobs_status)
        return [Condition(SAVED, "True" if ready else "False", "Asked", "asked the plugin")]


@pytest.fixture
def plugin():
    return Checkpoints()


async def conditions(world: World) -> list[tuple[str, str]]:
    found = await world.user.get(untyped(api.TRAIN_JOBS), KEY.name, KEY.namespace)
    return [(one["type"], one["status"]) for one in found.get("status", {}).get("conditions", [])]


def test_a_plugins_condition_is_stored_moves_and_ends_nothing(plugin):
    async def scenario(world: World) -> None:
        world.plugins += (plugin,)
        async with world.operator():
            await world.job()
            await world.settle(2)
            assert await conditions(world) == [(SAVED, "False")]
            first = find_condition((await world.read()).status.conditions, SAVED)
            await world.settle(60)
            assert find_condition((await world.read()).status.conditions, SAVED) == first
            await world.progress(active=1, ready=1)
            await world.settle(5)
            assert await conditions(world) == [(SAVED, "True")]
            assert not (await world.read()).is_finished
            later = find_condition((await world.read()).status.conditions, SAVED)
            assert later.last_transition_time > first.last_transition_time

    play(scenario)


def test_kubeflows_conditions_come_last_so_that_clients_of_upstream_read_them(plugin):
    """Upstream's column State takes the last condition for the state of the job."""

    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
            assert await conditions(world) == [("Suspended", "True")]
        world.plugins += (plugin,)
        async with world.operator():
            await world.settle(2)
            assert await conditions(world) == [(SAVED, "False"), ("Suspended", "True")]
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.progress("Completed", succeeded=1)
            await world.settle(5)
            assert await conditions(world) == [(SAVED, "False"), ("Suspended", "False"), ("Complete", "True")]

    play(scenario)


def test_plugins_conditions_cost_one_write_with_the_counters(plugin):
    async def scenario(world: World) -> None:
        world.plugins += (plugin,)
        async with world.operator():
            await world.user.create(api.TRAIN_JOBS, world.body("job"))
            await world.settle(0.1)
            await world.progress(active=1)
            await world.settle(5)
            assert [write for write in world.counting.writes if "status" in write] == ["PATCH trainjobs/job/status"]
            world.counting.calls.clear()
            await world.settle(600)
            assert world.counting.writes == []

    play(scenario)


def test_a_plugin_that_fails_to_say_its_conditions_is_told_and_the_job_goes_on(plugin):
    plugin.fails = True

    async def scenario(world: World) -> None:
        world.plugins += (plugin,)
        async with world.operator():
            await world.job()
            await world.settle(5)
            found = await world.read()
            assert found.status.diagnosis.reason == "PluginConditionsFailed"
            assert "plugin Checkpoints failed in Conditions" in found.status.diagnosis.message
            assert found.status.state == "Pending"
            await world.progress(active=1)
            await world.settle(5)
            assert (await world.read()).status.state == "Starting"
            plugin.fails = False
            await world.progress("Completed", succeeded=1)
            await world.settle(5)
            found = await world.read()
            assert found.is_finished
            assert found.status.diagnosis is None

    play(scenario)


def test_a_condition_without_a_prefix_is_refused_in_words(plugin):
    plugin.answer = [Condition("Complete", "True", "Mine", "it is done, I say")]

    async def scenario(world: World) -> None:
        world.plugins += (plugin,)
        async with world.operator():
            await world.job()
            await world.settle(5)
            found = await world.read()
            assert not found.is_finished
            assert "a type with a prefix (example.com/Checkpointed)" in found.status.diagnosis.message

    play(scenario)


def test_conditions_of_other_controllers_are_kept_whole_also_if_they_come_while_ours_are_written():
    async def scenario(world: World) -> None:
        async with world.running_job(active=1):
            await world.user.patch(api.TRAIN_JOBS, KEY, {"status": {"conditions": [SEEN]}}, subresource="status")
            await world.user.patch(api.TRAIN_JOBS, KEY, {"spec": {"suspend": True}})
            other = SEEN | {"type": "billing.example.com/Paid"}
            both = {"status": {"conditions": [SEEN, other]}}
            await world.user.patch(api.TRAIN_JOBS, KEY, both, subresource="status")
            await world.settle(5)

            found = await world.user.get(untyped(api.TRAIN_JOBS), KEY.name, KEY.namespace)
            *others, last = found["status"]["conditions"]
            assert others == [SEEN, other]
            assert last["type"] == "Suspended"

    play(scenario)


@pytest.mark.parametrize(("state", "end"), [("Completed", "Complete"), ("Failed", "Failed")])
def test_the_terminal_state_of_a_jobset_ends_the_job_too(state, end):
    """KEP-2170 decides by `status.terminalState`; a JobSet may have it before its condition, or without one."""

    async def scenario(world: World) -> None:
        async with world.running_job(active=1):
            patch = {"status": {"terminalState": state}}
            await world.user.patch(jobset.JOBSETS, Key(KEY.namespace, KEY.name), patch, subresource="status")
            await world.settle(2)

            [found] = (await world.read()).status.conditions
            assert (found.type, found.status, found.reason) == (end, "True", f"JobSet{state}")
            assert found.message == f"the JobSet's status.terminalState is {state}"

    play(scenario)
