"""What holds in every life of a JobSet, whatever its Jobs do and in whatever order the controller hears of it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.api.meta import is_condition_true
from ktrain.controllers.jobset.conditions import finished_condition, status_json

MAX_RESTARTS = 2


class Life:
    """One JobSet and its Jobs; `step` lets something happen, `work` lets the controller have a pass."""

    def __init__(self, make_jobset, make_job, run, now, shape):
        self.make_jobset, self.make_job, self.run, self.now = make_jobset, make_job, run, now
        self.shape = dict(shape)
        self.status = None
        self.jobs = {}
        self.seen_true = set()

    @property
    def jobset(self):
        replicated_jobs = ({"name": "a", "replicas": 2}, {"name": "b", **self.shape["b"]})
        return self.make_jobset(*replicated_jobs, status=self.status, **self.shape["spec"])

    @property
    def finished(self):
        return self.jobset.status is not None and finished_condition(self.jobset.status.conditions) is not None

    def step(self, deed, pick):
        self.now += timedelta(seconds=1)
        if deed == "work":
            self.work()
        elif deed == "suspend":
            self.shape["spec"]["suspend"] = not self.shape["spec"].get("suspend", False)
        elif self.jobs:
            self.happen(deed, sorted(self.jobs)[pick % len(self.jobs)])

    def happen(self, deed, short):
        state = self.jobs[short]
        if deed == "gone" and state.get("terminating"):
            del self.jobs[short]
        elif not state.get("end") and not state.get("suspend"):
            if deed == "ready":
                state["ready"] = 1
            elif deed in ("Complete", "Failed"):
                state.update(end=deed, ready=0)

    def work(self):
        before = self.jobset
        decision = self.run(before, *(self.make_job(short, **state) for short, state in self.jobs.items()), at=self.now)
        self.check(before, decision)
        restarts = before.status.restarts if before.status else 0
        for job in decision.delete:
            self.jobs[job.metadata.name.removeprefix("js-")]["terminating"] = True
        for slot in decision.create:
            self.jobs[slot.name.removeprefix("js-")] = {"attempt": restarts, "suspend": before.spec.suspend}
        for job in decision.suspend:
            self.jobs[job.metadata.name.removeprefix("js-")].update(suspend=True, ready=0)
        for wake in decision.resume:
            self.jobs[wake.job.metadata.name.removeprefix("js-")].update(suspend=False)
        if decision.status is not None:
            self.status = status_json(decision.status)
        return decision

    def check(self, before, decision):
        created = [slot.name.removeprefix("js-") for slot in decision.create]
        assert not set(created) & set(self.jobs), "two generations in one slot"
        assert not (self.finished and created), "a finished JobSet made a Job"
        assert decision.notices == () or decision.status is not None, "an event without the write that it tells of"
        if decision.status is None:
            return
        assert decision.status.restarts_count_towards_max <= min(decision.status.restarts, MAX_RESTARTS)
        old = before.status.conditions if before.status else ()
        for ended in ("Completed", "Failed"):
            assert not is_condition_true(old, ended) or is_condition_true(decision.status.conditions, ended)
        for condition in decision.status.conditions:
            if condition.status == "True":
                self.seen_true.add(condition.type)
            assert condition.type in self.seen_true, "a condition was first added as False"


DEPENDS = [{"name": "a", "status": "Complete"}]
SHAPES = st.builds(
    lambda b, order, strategy, operator: {
        "b": b,
        "spec": {
            "startupPolicy": {"startupPolicyOrder": "AnyOrder" if b else order},
            "failurePolicy": {"maxRestarts": MAX_RESTARTS, "restartStrategy": strategy},
            "successPolicy": {"operator": operator},
        },
    },
    b=st.sampled_from([{}, {"dependsOn": DEPENDS}]),
    order=st.sampled_from(["AnyOrder", "InOrder"]),
    strategy=st.sampled_from(["Recreate", "BlockingRecreate"]),
    operator=st.sampled_from(["All", "Any"]),
)
DEEDS = st.sampled_from(["work", "work", "ready", "Complete", "Failed", "gone", "suspend"])


@settings(max_examples=150)
@given(shape=SHAPES, deeds=st.lists(st.tuples(DEEDS, st.integers(0, 5)), max_size=40))
def test_no_order_of_events_breaks_the_laws_and_every_life_can_end(life, shape, deeds):
    world = life(msgspec.json.decode(msgspec.json.encode(shape)))
    for deed, pick in deeds:
        world.step(deed, pick)
    world.shape["spec"]["suspend"] = False
    for _ in range(40):
        world.step("work", 0)
        for short in sorted(world.jobs):
            world.happen("gone", short)
        for short in sorted(world.jobs):
            world.happen("Complete", short)

    assert world.finished
    assert world.work() == type(world.work())(), "a settled world still causes writes"


@pytest.fixture(scope="session")
def life(jobset, job, run, now):
    """Starts a life from a shape."""
    return lambda shape: Life(jobset, job, run, now, shape)
