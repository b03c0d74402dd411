"""
Startup policies in the life of whole JobSets (KEP-672): its three stories, and the integration tests that it asks for.

Beside the JobSet controller run a Job controller and a kubelet. `Line` notes when each pod began to run and when its
Job began to exist, as the API server showed it.
"""

import pytest

from ktrain.api.core import PODS, untyped
from ktrain.api.jobset import CHILD_JOBS, JOBSETS, REPLICATED_JOB_NAME
from ktrain.framework.errors import Invalid
from ktrain.testing.simulation import Crash, Moment, World
from ktrain.testing.time import simulate

from .jobsets import ATTEMPT, CRDS, KEY, conditions, create, start, status


def rules(*groups):
    """Return the startup policy of groups such as `"a b: Ready"`; without groups it is that of JobSet itself."""
    entries = [
        {"targetReplicatedJobs": names.split(), "waitForReplicatedJobsStatus": wanted}
        for names, _, wanted in (group.partition(": ") for group in groups)
    ]
    return {"startupPolicy": {"startupPolicyOrder": "InOrder", **({"rules": entries} if entries else {})}}


class Line:
    """
    Pods of a JobSet, in the order in which they began to run.

    A pod runs until `ends` has the name of its replicated job; it then has that phase. `began` has the names of
    replicated jobs, once for each attempt, with the phases that other replicated jobs had reached at that moment.
    """

    def __init__(self, world, **ends):
        self.world = world
        self.ends = ends
        self.began = []
        self._seen = set()

    def outcome(self, pod):
        labels = pod.metadata.labels
        name, attempt = labels[REPLICATED_JOB_NAME], labels[ATTEMPT]
        if (name, attempt, pod.metadata.uid) not in self._seen and self._is_first(name, attempt):
            self.began.append(name)
        self._seen.add((name, attempt, pod.metadata.uid))
        end = self.ends.get(name, "Running")
        return end(pod) if callable(end) else end

    def _is_first(self, name, attempt):
        return not any((name, attempt) == seen[:2] for seen in self._seen)


def suspended_jobs(world):
    """Return the replicated jobs with a suspended Job, and those with another one."""
    held, free = set(), set()
    for job in world.objects(CHILD_JOBS):
        (held if job["spec"].get("suspend") else free).add(job["metadata"]["labels"][REPLICATED_JOB_NAME])
    return held, free


def lived(scenario, *, seed=0):
    """Run `scenario(world)` in a world that serves JobSets."""

    async def main(env):
        async with World.made(env, crds=CRDS) as world:
            return await scenario(world)

    return simulate(main, seed=seed)


async def run_to_the_end(world, line):
    start(world, line.outcome)
    await world.until(lambda: conditions(world) & {"Completed", "Failed"})
    return line.began, conditions(world), status(world)["terminalState"]


STORIES = {
    "1: initializer, then trainer": (
        ["initializer", "trainer-node"],
        ["initializer: Succeeded"],
        {},
    ),
    "2: initializer, MPI launcher, then trainer": (
        ["initializer", "launcher", "trainer-node"],
        ["initializer: Succeeded", "launcher: Ready"],
        {},
    ),
    "3: simulations, then their analysis": (["simulation", "analysis"], ["simulation: Succeeded"], {}),
    "3: a small simulation, then a larger one": (
        ["small", "large"],
        ["small: Succeeded"],
        {"small": 2, "large": 8},
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_the_stories_run_in_their_order(story):
    names, groups, replicas = STORIES[story]

    async def scenario(world):
        await create(world, *({"name": name, "replicas": replicas.get(name, 1)} for name in names), **rules(*groups))
        return await run_to_the_end(world, Line(world, **dict.fromkeys(names, "Succeeded")))

    began, ended, terminal = lived(scenario)
    assert began == names
    assert (ended, terminal) == ({"Completed", "StartupPolicyCompleted"}, "Completed")


@pytest.mark.parametrize("groups", [(), ("a b: Ready",), ("a: Ready", "b: Ready")])
def test_ready_holds_the_next_back_until_all_are_ready(groups):
    """Without rules, all replicated jobs but the last are targets waiting for Ready: the default list of KEP-672."""

    async def scenario(world):
        line = Line(world, a="Pending", b="Pending")
        start(world, line.outcome)
        await create(world, {"name": "a", "replicas": 2}, "b", "c", **rules(*groups))
        await world.settled(quiet_s=5)
        first = sorted(line.began)
        line.ends["a"] = "Running"
        await world.settled(quiet_s=5)
        second, during = sorted(line.began), conditions(world)
        line.ends["b"] = "Running"
        await world.until(lambda: "StartupPolicyCompleted" in conditions(world))
        return first, second, during, sorted(line.began), conditions(world)

    first, second, during, last, after = lived(scenario)
    together = groups == ("a b: Ready",)
    assert (first, second, last) == (["a", "b"] if together else ["a"], ["a", "b"], ["a", "b", "c"])
    assert (during, after) == ({"StartupPolicyInProgress"}, {"StartupPolicyCompleted"})


def test_succeeded_holds_the_next_back_until_all_have_succeeded():
    async def scenario(world):
        line = Line(world)
        start(world, line.outcome)
        await create(world, "a", "b", "c", **rules("a: Succeeded", "b: Succeeded"))
        found = []
        for name in ("a", "b", "c"):
            await world.settled(quiet_s=5)
            found.append((list(line.began), sorted(conditions(world))))
            line.ends[name] = "Succeeded"
        await world.until(lambda: "Completed" in conditions(world))
        return found

    assert lived(scenario) == [
        (["a"], ["StartupPolicyInProgress"]),
        (["a", "b"], ["StartupPolicyInProgress"]),
        (["a", "b", "c"], ["StartupPolicyCompleted"]),
    ]


@pytest.mark.parametrize("groups", [(), ("a: Ready",), ("a: Succeeded",)])
def test_when_the_first_fails_the_second_is_never_executed(groups):
    async def scenario(world):
        await create(world, "a", "b", **rules(*groups))
        found = await run_to_the_end(world, Line(world, a="Failed"))
        await world.settled(quiet_s=5)
        return found

    began, ended, terminal = lived(scenario)
    assert began == ["a"]
    assert "Failed" in ended
    assert terminal == "Failed"


@pytest.mark.parametrize("groups", [("a: Succeeded", "b: Ready"), ("a b: Succeeded",), ()])
def test_a_failure_restarts_the_sequence_from_the_beginning(groups):
    async def scenario(world):
        line = Line(world, a="Succeeded", b="Succeeded")
        line.ends["c"] = lambda pod: "Failed" if pod.metadata.labels[ATTEMPT] == "0" else "Succeeded"
        await create(world, "a", "b", "c", failurePolicy={"maxRestarts": 1}, **rules(*groups))
        return await run_to_the_end(world, line), status(world)["restarts"]

    (began, ended, _), restarts = lived(scenario)
    assert [sorted(began[:2]), began[2], sorted(began[3:5]), began[5]] == [["a", "b"], "c", ["a", "b"], "c"]
    assert restarts == 1
    assert "Completed" in ended


def test_a_controller_that_dies_in_the_middle_goes_on_where_it_was():
    """In each life the controller dies at another call, at another moment around it; nothing happens otherwise."""
    moments = list(Moment)

    def life(crash=None):
        async def scenario(world):
            line = Line(world, a="Succeeded", b="Running", c="Running")
            process = start(world, line.outcome, crash=crash)
            await create(world, "a", {"name": "b", "replicas": 2}, "c", **rules("a: Succeeded", "b: Ready"))
            await world.until(lambda: "StartupPolicyCompleted" in conditions(world))
            line.ends |= {"b": "Succeeded", "c": "Succeeded"}
            await world.until(lambda: "Completed" in conditions(world))
            await world.settled(quiet_s=5)
            return (line.began, status(world)["restarts"], status(world)["terminalState"]), process.calls

        return lived(scenario)

    end, calls = life()
    assert end == (["a", "b", "c"], 0, "Completed")
    assert calls > 10
    for number in range(1, calls + 1):
        crash = Crash(number, moments[number % len(moments)])
        assert life(crash)[0] == end, f"after a crash at call {number}, {crash.moment.value}"


def test_a_suspension_stops_all_and_the_sequence_starts_again():
    """
    A Job that is done stays done, as with JobSet's own InOrder; all others are started again, in their order.

    KEP-672: "If JobSet is suspended the all ReplicatedJobs will be suspended and the Job sequence starts again."
    """

    async def scenario(world):
        line = Line(world, a="Succeeded")
        start(world, line.outcome)
        await create(world, "a", "b", "c", **rules("a: Succeeded", "b: Ready"))
        await world.until(lambda: "StartupPolicyCompleted" in conditions(world))
        await world.settled(quiet_s=5)
        before = list(line.began)
        await world.client.patch(JOBSETS, KEY, {"spec": {"suspend": True}})
        await world.until(lambda: suspended_jobs(world) == ({"b", "c"}, {"a"}) and not list(running(world)))
        line.ends["b"] = "Pending"
        line.began.clear()
        line._seen.clear()
        await world.client.patch(JOBSETS, KEY, {"spec": {"suspend": False}})
        await world.until(lambda: suspended_jobs(world) == ({"c"}, {"a", "b"}))
        await world.settled(quiet_s=5)
        during = list(line.began), conditions(world)
        line.ends["b"] = "Running"
        await world.until(lambda: conditions(world) == {"StartupPolicyCompleted"})
        return before, during, list(line.began)

    before, (again, during), after = lived(scenario)
    assert before == ["a", "b", "c"]
    # The pod of `a` is still there, Succeeded: it is seen, and it is not run again.
    assert [name for name in again if name != "a"] == ["b"]
    assert [name for name in after if name != "a"] == ["b", "c"]
    assert during == {"StartupPolicyInProgress", "Suspended"}


def test_a_startup_policy_is_defaulted_and_cannot_be_changed():
    async def scenario(world):
        policy = rules("a: ")["startupPolicy"]
        del policy["rules"][0]["waitForReplicatedJobsStatus"]
        await create(world, "a", "b", startupPolicy=policy)
        stored = (await world.client.get(JOBSETS, KEY.name, KEY.namespace)).spec.startup_policy
        assert [rule.wait_for_replicated_jobs_status for rule in stored.rules] == ["Ready"]
        for changed in (rules("a: Succeeded"), rules("a b: Ready"), rules()):
            changed["startupPolicy"].setdefault("rules", None)
            with pytest.raises(Invalid, match=r"spec\.startupPolicy: Invalid value: Value is immutable"):
                await world.client.patch(JOBSETS, KEY, {"spec": changed})
        await create(world, "a", "b", name="plain")
        plain = (await world.client.get(untyped(JOBSETS), "plain", KEY.namespace))["spec"]["startupPolicy"]
        assert plain == {"startupPolicyOrder": "AnyOrder"}

    lived(scenario)


def running(world):
    """Yield the pods that have not ended."""
    return (pod for pod in world.objects(PODS) if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"))
