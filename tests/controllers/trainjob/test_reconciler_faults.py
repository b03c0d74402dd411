"""The TrainJob controller when others refuse, interfere, or take its job away."""

from __future__ import annotations

import anyio
import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key, Object, Resource
from ktrain.pipeline import Component, Watch
from ktrain.pipeline.errors import PlanError

from .world import KEY, NS, World, play


def test_a_job_of_another_controller_gets_not_one_write():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(managedBy="kueue.x-k8s.io/multikueue")
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_what_the_api_server_refuses_is_explained_at_once_and_retried():
    async def scenario(world: World) -> None:
        async with world.operator():
            world.quota_exceeded = True
            await world.job()
            refused = (await world.read()).status
            world.quota_exceeded = False
            await world.settle(60)

            assert (refused.diagnosis.reason, refused.diagnosis.message) == ("Refused", "exceeded quota: gpus")
            assert await world.job_set() is not None

    play(scenario)


def test_what_is_refused_for_hours_is_tried_with_ever_longer_waits():
    async def scenario(world: World) -> None:
        async with world.operator():
            world.quota_exceeded = True
            await world.job()
            await world.settle(3600)
            tries = world.counting.writes.count("PATCH jobsets/job")
            statuses = world.counting.writes.count("PATCH trainjobs/job/status")

            assert 15 <= tries <= 40
            assert statuses == 1

    play(scenario)


def test_what_cannot_be_made_in_a_namespace_that_is_being_deleted_is_neither_told_nor_tried_again():
    async def scenario(world: World) -> None:
        world.quota_exceeded = True
        world.details = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
        async with world.operator():
            await world.job()
            await world.settle(3600)

            assert world.counting.writes.count("PATCH jobsets/job") == 1
            assert (await world.read()).status.diagnosis is None
            assert not [write for write in world.counting.writes if "events" in write or "status" in write]

    play(scenario)


class Broken:
    """A plugin that fails for the jobs that have a trainer."""

    name = "Broken"

    def enforce_ml_policy(self, info, ctx):
        if info.job.spec.trainer:
            raise ZeroDivisionError("oops")


def test_a_plugin_that_raises_costs_its_own_jobs_and_is_named_in_their_diagnosis():
    async def scenario(world: World) -> None:
        world.plugins += (Broken(),)
        async with world.operator():
            await world.job(trainer={"numNodes": 1})
            await world.job(name="fine")
            await world.settle(5)

            diagnosis = (await world.read()).status.diagnosis
            assert diagnosis.reason == "PluginFailed"
            assert "plugin Broken failed in EnforceMLPolicy" in diagnosis.message
            assert "ZeroDivisionError: oops" in diagnosis.message
            assert await world.job_set() is None
            assert await world.user.get(jobset.JOBSETS, "fine", NS)

    play(scenario)


class Verbose:
    """A plugin that cannot build, and says why at length."""

    name = "Verbose"

    def build(self, info, ctx):
        raise PlanError("x" * (1000 if info.job.spec.trainer else 900))


def test_the_one_event_about_a_job_is_a_warning_whose_note_is_cut_as_upstream_cuts_it():
    async def scenario(world: World) -> None:
        world.plugins += (Verbose(),)
        async with world.operator():
            await world.job(trainer={})
            await world.job(name="short")
            await world.settle(5)
        events = (await world.user.list(core.untyped(core.EVENTS), NS)).items
        common = {(e["type"], e["reason"], e["action"], e["reportingController"]) for e in events}

        assert common == {("Warning", "TrainJobResourcesCreationFailed", "Reconciling", "trainer-trainjob-controller")}
        head = "TrainJob resources reconciliation failed: "
        assert {e["regarding"]["name"]: e["note"] for e in events} == {
            "job": f"{head}{'x' * 950} ...",
            "short": f"{head}{'x' * 900}",
        }

    play(scenario)


class Contrary:
    """A plugin that wants another number of nodes than everybody."""

    name = "Contrary"
    after = ("PlainML",)

    def enforce_ml_policy(self, info, ctx):
        info.trainer.set_count(77)


def test_a_plugin_that_writes_what_another_one_wrote_is_named_with_that_one():
    async def scenario(world: World) -> None:
        world.plugins += (Contrary(),)
        async with world.operator():
            await world.job(trainer={"numNodes": 3})
            await world.settle(5)

            message = (await world.read()).status.diagnosis.message
            assert "plugin Contrary" in message
            assert "which plugin PlainML has set differently; disable one of the two" in message

    play(scenario)


def test_a_storm_of_changes_by_others_neither_loses_the_last_state_nor_costs_many_writes():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            world.counting.calls.clear()
            for number in range(1, 301):
                await world.progress(active=1, ready=number)
                await world.user.patch(api.TRAIN_JOBS, KEY, {"metadata": {"labels": {"n": str(number)}}})
                await world.env.clock.sleep(0.01)
            await world.settle(5)

            assert (await world.read()).status.jobs_status == (api.JobStatus("node", active=1, ready=300),)
            assert len(world.counting.writes) <= 10
            assert (await world.user.list(core.untyped(core.EVENTS), NS)).items == []

    play(scenario)


def test_a_deadline_outlives_a_server_that_refuses_the_deletion():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(activeDeadlineSeconds=10)
            world.quota_exceeded = True
            await world.settle(60)
            failed, child = await world.read(), await world.job_set()
            world.quota_exceeded = False
            await world.settle(300)

            assert failed.is_finished
            assert child is not None
            assert await world.job_set() is None

    play(scenario)


def test_what_was_sent_before_a_restart_and_is_wanted_no_more_is_removed():
    pod = {"metadata": {"labels": {"team": "old"}}, "spec": {"containers": [{"name": "node", "tty": True}]}}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod}}}]}}
    patch = {"manager": "me.io/x", "trainingRuntimeSpec": {"template": template}}

    async def scenario(world: World) -> None:
        async def pod_template() -> dict:
            stored = await world.user.get(core.untyped(jobset.JOBSETS), "job", NS)
            return stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]

        async with world.operator():
            await world.job(suspend=True, runtimePatches=[patch])
            assert (await pod_template())["metadata"]["labels"] == {"team": "old"}
        await world.patch(api.TRAIN_JOBS, spec={"runtimePatches": None})
        async with world.operator():
            await world.settle(2)

            assert "labels" not in (await pod_template()).get("metadata", {})
            assert "tty" not in (await pod_template())["spec"]["containers"][0]
            assert world.counting.writes == ["PATCH jobsets/job"]

    play(scenario)


def test_what_another_adds_to_a_suspended_jobset_is_no_reason_to_write():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
        await world.patch(jobset.JOBSETS, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
        async with world.operator():
            await world.settle(60)

            assert world.counting.writes == []
            assert (await world.job_set()).metadata.labels == {"kueue.x-k8s.io/queue-name": "q"}

    play(scenario)


def test_a_deadline_is_kept_while_nothing_can_be_built():
    async def scenario(world: World) -> None:
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.job(activeDeadlineSeconds=200)
            await world.settle(198)
            before = await world.read()
            await world.settle(2)

            assert not before.is_finished
            assert (await world.read()).status.conditions[0].reason == "DeadlineExceeded"

    play(scenario)


@pytest.mark.parametrize("refused", ["/configmaps/", "/jobsets/"])
def test_a_read_that_is_refused_after_a_restart_is_explained_and_keeps_the_deadline(refused):
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True, activeDeadlineSeconds=300)
        world.counting.refused = (refused,)
        async with world.operator():
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            explained = (await world.read()).status
            await world.settle(302)

            assert explained.diagnosis.reason == "Refused"
            assert refused in explained.diagnosis.message
            assert {c.type: c.status for c in explained.conditions} == {"Suspended": "False"}
            assert (await world.read()).is_finished
        events = await world.user.list(core.untyped(core.EVENTS), NS)
        assert any(refused in event["note"] for event in events.items)

    play(scenario)


@pytest.mark.parametrize("has_successor", [False, True])
def test_the_children_of_a_job_that_is_gone_are_not_made_again_by_a_cache_that_is_behind(has_successor):
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job()
            world.counting.calls.clear()
            world.counting.gate = anyio.Event()
            await world.user.delete(api.TRAIN_JOBS, KEY)
            if has_successor:
                await world.job()
            await world.settle(60)

            assert await world.job_set() is None
            assert world.counting.writes == []
            assert world.counting.reads != []

    play(scenario)


def test_the_status_of_a_job_that_is_gone_is_not_written_to_its_successor():
    async def scenario(world: World) -> None:
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator():
            await world.job(activeDeadlineSeconds=30)
            world.counting.gate = anyio.Event()
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.job()
            await world.settle(60)

            assert "PATCH trainjobs/job/status" in world.counting.writes
            assert (await world.read()).status == api.TrainJobStatus()

    play(scenario)


class Gang:
    """A plugin for a scheduler that the cluster does not have, and of whose objects one job needs one."""

    name = "Gang"
    kind = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", namespaced=True, type=Object)

    def watches(self):
        return (Watch(self.kind, owned=True),)

    def build(self, info, ctx):
        assert ctx.lookup(self.kind, info.job.key) is None
        metadata = {"name": info.job.metadata.name, "namespace": NS}
        body = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}
        return (Component(self.kind, body),) if info.job.spec.trainer else ()


def test_a_plugin_whose_kind_is_not_served_costs_only_the_jobs_that_need_it():
    async def scenario(world: World) -> None:
        world.plugins += (Gang(),)
        async with world.operator():
            await world.job()
            assert await world.job_set() is not None
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.settle()
            await world.job(trainer={"numNodes": 2})
            await world.settle(5)

            assert await world.job_set() is None
            assert "podgroups.scheduling.volcano.sh are not watched" in (await world.read()).status.diagnosis.message

    play(scenario)


def test_the_empty_metadata_that_kubeflow_sends_with_templates_is_no_reason_to_write():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(suspend=True)
        stored = await world.user.get(core.untyped(jobset.JOBSETS), "job", NS)
        for job in stored["spec"]["replicatedJobs"]:
            job["template"]["spec"].pop("completionMode", None)  # is set by JobSet's webhook
            job["template"]["spec"]["template"].setdefault("metadata", {})
        meta = {key: stored["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
        body = {"apiVersion": stored["apiVersion"], "kind": "JobSet", "metadata": meta, "spec": stored["spec"]}
        await world.user.apply(core.untyped(jobset.JOBSETS), body, field_manager=api.FIELD_MANAGER)
        async with world.operator():
            await world.settle(60)

            assert world.counting.writes == []

    play(scenario)


def test_a_conflict_that_lasts_is_told_and_one_that_passes_is_not():
    async def scenario(world: World) -> None:
        world.quota_exceeded, world.refusal = True, (409, "Conflict", "the webhook says: conflict with another")
        async with world.operator():
            await world.job()
            assert (await world.read()).status.diagnosis is None
            await world.settle(10)
            told = (await world.read()).status.diagnosis
            world.quota_exceeded = False
            await world.settle(60)

            assert (told.reason, told.message) == ("Refused", "the webhook says: conflict with another")
            assert await world.job_set()
            assert (await world.read()).status.diagnosis is None

    play(scenario)
