"""The JobSet controller dies at any call of a JobSet's life: counters move once, and everything comes to its end."""

import pytest

from ktrain.api.core import SERVICES
from ktrain.api.jobset import JOBSETS
from ktrain.controllers.jobset import Gates
from ktrain.testing.simulation import Crash, Moment, World
from ktrain.testing.time import simulate

from .jobsets import ATTEMPT, CRDS, JOB_ATTEMPT, KEY, attempts, conditions, create, start, status


def lived(life, crash=None, *, gates=None, seed=0):
    """Run `life(world)`, in which one pod or another fails, and return what it returns with the number of calls."""

    async def main(env):
        async with World.made(env, crds=CRDS) as world:
            process = start(world, life.outcome, gates=gates, crash=crash)
            await life.run(world)
            await world.settled(quiet_s=5)
            if crash is not None:
                assert process.lives == 2
            return life.end(world), process.calls

    return simulate(main, seed=seed)


class Restart:
    """The second of two replicated jobs fails once; all is made anew and succeeds."""

    expected = (1, 1, "Completed", {"Completed"}, {"a-0": ("1", None), "a-1": ("1", None), "b-0": ("1", None)})

    @staticmethod
    def outcome(pod):
        labels = pod.metadata.labels
        fails = labels["job-name"] == "js-b-0" and labels[ATTEMPT] == "0"
        return "Failed" if fails else "Succeeded"

    @staticmethod
    async def run(world):
        parent = [{"name": "a", "status": "Complete"}]
        await create(
            world, {"name": "a", "replicas": 2}, {"name": "b", "dependsOn": parent}, failurePolicy={"maxRestarts": 2}
        )

    @staticmethod
    def end(world):
        found = status(world)
        counted = found.get("restarts"), found.get("restartsCountTowardsMax")
        return *counted, found.get("terminalState"), conditions(world), attempts(world)


class OneJobAndSuspension:
    """One Job fails and is made anew alone; then the JobSet is suspended, and resumed."""

    gates = Gates(restart_job=True)
    expected = (
        0,
        [1, 0],
        [1, 0],
        "Completed",
        {"Completed"},
        {"a-0": ("0", "1"), "a-1": ("0", "0"), "b-0": ("0", "0")},
    )
    held = True

    @classmethod
    def outcome(cls, pod):
        labels = pod.metadata.labels
        if labels["job-name"] == "js-a-0" and labels[JOB_ATTEMPT] == "0":
            return "Failed"
        return "Running" if cls.held else "Succeeded"

    @classmethod
    async def run(cls, world):
        cls.held = True
        policy = {"maxRestarts": 1, "rules": [{"name": "one", "action": "RestartJob"}]}
        await create(world, {"name": "a", "replicas": 2}, "b", failurePolicy=policy)
        await world.until(lambda: attempts(world).get("a-0") == ("0", "1"))
        await world.client.patch(JOBSETS, KEY, {"spec": {"suspend": True}})
        await world.until(lambda: "Suspended" in conditions(world))
        await world.client.patch(JOBSETS, KEY, {"spec": {"suspend": False}})
        cls.held = False

    @staticmethod
    def end(world):
        found = status(world)
        a = next(entry for entry in found["replicatedJobsStatus"] if entry["name"] == "a")
        counted = found["restarts"], a["jobRestarts"], a["jobRestartsCountTowardsMax"]
        # The Jobs may have ended before a controller that died while it resumed them is back: then, as the end comes
        # before everything else, nothing says any more that the suspension is over.
        return *counted, found.get("terminalState"), conditions(world) - {"Suspended"}, attempts(world)


@pytest.mark.parametrize(
    ("life", "moment"),
    [*((Restart, moment) for moment in Moment), (OneJobAndSuspension, Moment.AFTER_SEND)],
)
def test_a_crash_at_any_call_neither_loses_nor_doubles_a_restart(life, moment):
    gates = getattr(life, "gates", None)
    end, calls = lived(life, gates=gates)
    assert end == life.expected
    assert calls > 15

    for number in range(1, calls + 1):
        end, _ = lived(life, Crash(number, moment), gates=gates)
        assert end == life.expected, f"after a crash at call {number}, {moment.value}"


def test_bad_weather_changes_nothing_in_the_end():
    async def main(env):
        async with World.made(env, crds=CRDS) as world:
            world.faults.on("write", probability=0.2).answer(500)
            world.faults.on("watch").cut(every_s=3)
            start(world, Restart.outcome)
            await Restart.run(world)
            await world.until(lambda: "Completed" in conditions(world), timeout_s=900)
            world.faults.clear()
            await world.settled(quiet_s=5)
            return Restart.end(world), len(list(world.objects(SERVICES)))

    for seed in range(5):
        assert simulate(main, seed=seed) == (Restart.expected, 1)


def test_two_hundred_jobs_that_end_together_cost_few_writes_beside_their_creation():
    async def main(env):
        async with World.made(env, crds=CRDS) as world:
            process = start(world, lambda _pod: "Succeeded")
            await create(world, {"name": "a", "replicas": 200})
            await world.until(lambda: "Completed" in conditions(world))
            return process.calls

    assert simulate(main) < 200 + 50
