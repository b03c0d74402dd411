"""What users, plugins and API servers do that nobody should: each is told on the TrainJob, and costs nobody else."""

from __future__ import annotations

import copy
import time

import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.core import CONFIG_MAP_METADATA
from ktrain.api.meta import Key
from ktrain.pipeline import Component, Watch, overrun
from ktrain.pipeline.findings import Findings

from .conftest import RUNTIME
from .world import NS, World, play


class Odd:
    """A plugin that does something odd for the jobs that have a trainer."""

    name = "Odd"
    before = ("JobSet",)

    def __init__(self, hook: str, answer) -> None:
        self.hook, self.answer = hook, answer

    def _answer(self, hook: str, job, usual):
        return self.answer if job.spec.trainer and hook == self.hook else usual

    def watches(self):
        return (Watch(CONFIG_MAP_METADATA, owned=True),)

    def validate(self, info, job, old, ctx):
        return self._answer("validate", job, Findings())

    def build(self, info, ctx):
        return self._answer("build", info.job, ())

    def terminal_condition(self, job, ctx):
        return self._answer("terminal_condition", job, None)

    def jobs_status(self, job, ctx):
        return self._answer("jobs_status", job, None)


def config_map(data) -> Component:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": NS}, "data": data}
    return Component(CONFIG_MAP_METADATA, body)


def named(namespace) -> Component:
    return Component(CONFIG_MAP_METADATA, {"metadata": {"name": "c", "namespace": namespace}})


@pytest.mark.parametrize(
    ("hook", "answer", "reason", "message"),
    [
        ("validate", None, "PluginFailed", "plugin Odd failed in CustomValidation"),
        ("build", "components", "PluginFailed", "plugin Odd failed in ComponentBuilder"),
        ("build", [config_map({"a": object()})], "BuildFailed", "ConfigMap/c cannot be written"),
        ("build", [named(7)], "InternalError", "the operator's log has more"),
        ("terminal_condition", True, "PluginFailed", "plugin Odd failed in TerminalCondition"),
        ("jobs_status", {"node": 1}, "PluginFailed", "plugin Odd failed in Status"),
    ],
)
def test_a_plugin_that_breaks_its_contract_is_named_on_its_own_jobs(hook, answer, reason, message):
    async def scenario(world: World) -> None:
        world.plugins += (Odd(hook, answer),)
        async with world.operator():
            await world.job(trainer={"numNodes": 1})
            await world.job(name="fine")
            await world.settle(5)

            diagnosis = (await world.read()).status.diagnosis
            assert (diagnosis.reason, message in diagnosis.message) == (reason, True)
            assert await world.job_set() is None
            assert await world.user.get(jobset.JOBSETS, "fine", NS)

    play(scenario)


class Sleepy:
    """A plugin that waits, for the jobs that have a trainer."""

    name = "Sleepy"

    def __init__(self) -> None:
        self.asked = 0

    def enforce_pod_spec(self, info, ctx):
        if info.job.spec.trainer:
            self.asked += 1
            time.sleep(30)


def test_a_plugin_that_waits_is_told_at_once_and_asked_again_a_minute_later(monkeypatch):
    monkeypatch.setattr(overrun, "LIMIT_S", 0.05)
    sleepy = Sleepy()

    async def scenario(world: World) -> None:
        world.plugins += (sleepy,)
        async with world.operator():
            await world.job(trainer={"numNodes": 1})
            diagnosis = (await world.read()).status.diagnosis
            asked = sleepy.asked
            await world.job(name="fine")
            await world.settle(50)

            assert (diagnosis.reason, "did not return within" in diagnosis.message) == ("PluginFailed", True)
            assert asked <= 2
            assert sleepy.asked == asked
            assert await world.user.get(jobset.JOBSETS, "fine", NS)
            await world.settle(60)
            assert sleepy.asked == asked + 1

    play(scenario)


def test_what_storage_finds_too_large_is_told_at_once_with_what_to_do():
    async def scenario(world: World) -> None:
        world.quota_exceeded = True
        world.refusal = (500, "InternalError", "etcdserver: request is too large")
        async with world.operator():
            await world.job()

            diagnosis = (await world.read()).status.diagnosis
            assert diagnosis.reason == "Refused"
            assert diagnosis.message.startswith("jobsets/job, with the record of who set which field, is larger than")
            assert "move what is long" in diagnosis.message
            assert "etcdserver: request is too large" in diagnosis.message

    play(scenario)


def test_a_runtime_nearly_as_large_as_a_snapshot_can_be_is_run_word_by_word():
    text = "x" * 150_000 + "é☃𝄞" * 25_000 + '"\\\n\t' * 10_000
    runtime = copy.deepcopy(RUNTIME)
    (step,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = step["template"]["spec"]["template"]["spec"]["containers"]
    container["args"] = [text]
    container["env"] = [{"name": "LONG", "value": text}]

    async def scenario(world: World) -> None:
        await world.user.apply(
            core.untyped(api.TRAINING_RUNTIMES), runtime | {"metadata": {"name": "rt", "namespace": NS}}
        )
        async with world.operator():
            await world.job(suspend=True)
        async with world.operator():
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.settle(5)

            assert (await world.read()).status.diagnosis is None
            stored = await world.user.get(core.untyped(jobset.JOBSETS), "job", NS)
            (job,) = stored["spec"]["replicatedJobs"]
            (made,) = job["template"]["spec"]["template"]["spec"]["containers"]
            assert (made["args"], made["env"][0]["value"], stored["spec"]["suspend"]) == ([text], text, False)

    play(scenario)


def test_a_patch_that_makes_a_jobset_too_large_is_refused_with_what_to_do():
    runtime = copy.deepcopy(RUNTIME)
    (step,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = step["template"]["spec"]["template"]["spec"]["containers"]
    container["args"] = ["x" * 20_000]
    runtime["spec"]["template"]["spec"]["replicatedJobs"] = [step | {"name": f"step-{i}"} for i in range(20)]
    everywhere = {"metadata": {"annotations": {"note": "x" * 70_000}}}

    async def scenario(world: World) -> None:
        metadata = {"name": "rt", "namespace": NS}
        await world.user.apply(core.untyped(api.TRAINING_RUNTIMES), runtime | {"metadata": metadata})
        async with world.operator():
            await world.job(podTemplateOverrides=[everywhere])
            await world.settle(5)

            diagnosis = (await world.read()).status.diagnosis
            assert diagnosis.reason == "BuildFailed"
            assert diagnosis.message.startswith("JobSet/job would have 18")
            assert "move what is long" in diagnosis.message
            assert "PATCH jobsets/job" not in world.counting.writes

    play(scenario)


def test_a_jobset_that_another_makes_deletes_and_makes_again_stays_his():
    async def scenario(world: World) -> None:
        theirs = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "job", "namespace": NS},
            "spec": RUNTIME["spec"]["template"]["spec"],
        }
        async with world.operator():
            await world.user.create(core.untyped(jobset.JOBSETS), theirs)
            await world.job()
            await world.settle(5)
            taken = (await world.read()).status.diagnosis
            await world.user.delete(jobset.JOBSETS, Key(NS, "job"))
            await world.user.create(core.untyped(jobset.JOBSETS), theirs)
            await world.settle(60)
            uid = (await world.job_set()).metadata.uid
            await world.user.delete(jobset.JOBSETS, Key(NS, "job"))
            await world.settle(60)
            ours = await world.job_set()
            await world.progress(active=1)
            await world.settle()

            assert taken.reason == "NameTaken"
            assert (ours.metadata.uid != uid, ours.metadata.controller.kind) == (True, "TrainJob")
            assert (await world.read()).status.diagnosis is None

    play(scenario)
