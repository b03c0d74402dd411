"""The snapshot of a job's own goes out beside what is built from it: what may become of either of the two."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key, ObjectMeta
from ktrain.controllers.trainjob import own_snapshots
from ktrain.controllers.trainjob import snapshot as snapshots
from ktrain.framework.errors import NotFound
from ktrain.testing.faults import FaultTransport

from .world import KEY, NS, World, play

SNAPSHOT = "job-runtime-snapshot"
EDITED = {"template": {"metadata": {"labels": {"v": "2"}}}}
BOTH = ["PATCH jobsets/job", "POST configmaps"]


def weather(world: World) -> FaultTransport:
    """Lay faults on the operator's calls."""
    faults = FaultTransport(world.counting.inner, world.env)
    world.counting.inner = faults
    return faults


@asynccontextmanager
async def accepting(world: World, **options):
    """Run the operator in a namespace that has accepted a snapshot; yields the faults that may be laid on its calls."""
    faults = weather(world)
    async with world.operator(**options):
        await world.job("first")
        yield faults


async def snapshot(world: World) -> str | None:
    """What the job's snapshot holds, if it is there."""
    try:
        return (await world.user.get(core.CONFIG_MAPS, SNAPSHOT, NS)).data["runtime"]
    except NotFound:
        return None


async def labels(world: World) -> dict[str, str] | None:
    found = await world.job_set()
    return found and dict(found.metadata.labels)


def test_a_jobset_does_not_wait_for_its_snapshot():
    async def scenario(world: World) -> None:
        async with accepting(world) as faults:
            world.counting.calls.clear()
            with faults.on("create", core.CONFIG_MAPS).delay(3):
                await world.job()
                assert (await snapshot(world), await labels(world)) == (None, {})
            await world.settle(5)

            assert await snapshot(world)
            assert world.counting.writes == BOTH, "the JobSet goes out first"
            assert world.counting.reads == []

    play(scenario)


def test_the_first_snapshot_of_a_namespace_goes_alone():
    async def scenario(world: World) -> None:
        faults = weather(world)
        async with world.operator():
            with faults.on("create", core.CONFIG_MAPS).delay(3):
                await world.job()
                assert world.counting.writes == ["POST configmaps"]
            await world.settle(5)

            assert world.counting.writes == BOTH[::-1]

    play(scenario)


@pytest.mark.parametrize(("suspend", "then"), [(False, {}), (True, {"v": "2"})])
def test_where_only_the_jobset_came_to_be_the_snapshot_is_taken_anew(suspend, then):
    """What runs is left alone; what is suspended follows its snapshot."""

    async def scenario(world: World) -> None:
        async with accepting(world) as faults:
            faults.on("create", core.CONFIG_MAPS).delay(60)
            await world.job(suspend=suspend)
        assert (await snapshot(world), await labels(world)) == (None, {})
        faults.clear()
        await world.patch(api.TRAINING_RUNTIMES, "rt", spec=EDITED)
        async with world.operator():
            await world.settle()

            assert '"v": "2"' in await snapshot(world)
            assert await labels(world) == then
            children = [write for write in world.counting.writes if "trainjobs" not in write]
            assert children == ["PATCH jobsets/job"] * suspend + ["POST configmaps"]

    play(scenario)


@pytest.mark.parametrize("gone", [False, True], ids=["edited", "deleted"])
def test_a_snapshot_that_was_refused_is_written_as_it_was_taken_whatever_has_become_of_the_runtime(gone):
    async def scenario(world: World) -> None:
        async with accepting(world) as faults:
            quota = faults.on("create", core.CONFIG_MAPS).answer(403, message="exceeded quota: configmaps")
            await world.job()
            refused, seen = (await world.read()).status, await labels(world)
            if gone:
                await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
            else:
                await world.patch(api.TRAINING_RUNTIMES, "rt", spec=EDITED)
            quota.remove()
            world.counting.calls.clear()
            await world.settle(60)

            assert (refused.diagnosis.reason, seen) == ("Refused", {})
            assert "exceeded quota: configmaps" in refused.diagnosis.message
            assert '"v": "2"' not in await snapshot(world)
            assert (await world.read()).status.diagnosis is None
            assert world.counting.writes == ["POST configmaps", "PATCH trainjobs/job/status"]

    play(scenario)


def test_where_snapshots_are_refused_the_next_job_waits_for_its_own():
    async def scenario(world: World) -> None:
        async with accepting(world) as faults:
            faults.on("create", core.CONFIG_MAPS).answer(403, message="exceeded quota: configmaps")
            await world.job("second")
            await world.job()
            waiting = await labels(world)
            faults.clear()
            await world.settle(60)

            assert waiting is None
            assert await snapshot(world)
            assert await labels(world) == {}

    play(scenario)


@pytest.mark.parametrize("what", [core.CONFIG_MAPS, jobset.JOBSETS], ids=["snapshot", "jobset"])
@pytest.mark.parametrize("lost", ["lose_answer", "lose_request"])
def test_when_one_of_the_two_is_lost_both_are_there_in_the_end_and_once(what, lost):
    async def scenario(world: World) -> None:
        async with accepting(world) as faults:
            getattr(faults.on("write", what, times=1), lost)()
            await world.job()
            made = await world.job_set() if what is core.CONFIG_MAPS else None
            await world.patch(api.TRAINING_RUNTIMES, "rt", spec=EDITED)
            await world.settle(60)

            assert '"v": "2"' not in await snapshot(world)
            assert await labels(world) == {}
            assert made is None or (await world.job_set()).metadata.generation == made.metadata.generation == 1
            assert world.counting.writes.count("PATCH trainjobs/job/status") <= 2

    play(scenario)


def test_a_snapshot_stays_though_its_jobset_is_refused():
    async def scenario(world: World) -> None:
        async with accepting(world):
            world.quota_exceeded = True
            await world.job()
            assert await snapshot(world)
            await world.patch(api.TRAINING_RUNTIMES, "rt", spec=EDITED)
            world.quota_exceeded = False
            await world.settle(60)

            assert await labels(world) == {}

    play(scenario)


def test_a_snapshot_that_is_deleted_later_is_taken_anew():
    async def scenario(world: World) -> None:
        async with accepting(world):
            await world.job(suspend=True)
            await world.patch(api.TRAINING_RUNTIMES, "rt", spec=EDITED)
            before = await labels(world)
            await world.user.delete(core.CONFIG_MAPS, Key(NS, SNAPSHOT))
            await world.settle()

            assert (before, await labels(world)) == ({}, {"v": "2"})

    play(scenario)


def test_beside_a_foreign_snapshot_there_is_no_jobset_also_where_others_were_accepted():
    async def scenario(world: World) -> None:
        metadata = {"name": SNAPSHOT, "namespace": NS}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": "mine"}}
        async with accepting(world):
            await world.user.create(core.CONFIG_MAPS, body)
            await world.settle()
            await world.job()
            await world.settle(5)

            assert await snapshot(world) == "mine"
            assert await world.job_set() is None

    play(scenario)


def test_a_job_that_is_deleted_and_made_again_gets_the_runtime_of_its_own_time():
    """What was taken for the first and never stored is not the second's."""

    async def scenario(world: World) -> None:
        async with accepting(world) as faults:
            faults.on("create", core.CONFIG_MAPS).answer(403, message="exceeded quota: configmaps")
            await world.job()
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.patch(api.TRAINING_RUNTIMES, "rt", spec=EDITED)
            faults.clear()
            await world.job()
            await world.settle(60)

            assert '"v": "2"' in await snapshot(world)
            assert await labels(world) == {"v": "2"}

    play(scenario)


@pytest.mark.parametrize(("code", "stored"), [(503, True), (403, False)], ids=["what passes", "what lasts"])
def test_a_job_that_ends_before_its_snapshot_is_stored_waits_for_it_unless_it_is_refused_for_good(code, stored):
    async def scenario(world: World) -> None:
        async with accepting(world) as faults:
            refusal = faults.on("create", core.CONFIG_MAPS).answer(code, message="no")
            await world.job()
            await world.progress("Completed", succeeded=1)
            await world.settle(5)
            ended_at_once = (await world.read()).is_finished
            refusal.remove()
            await world.settle(60)
            ended = await world.read()
            world.counting.calls.clear()
            await world.settle(600)

            assert ended_at_once is not stored
            assert (ended.is_finished, ended.status.diagnosis) == (True, None)
            assert (await snapshot(world) is not None) is stored
            assert world.counting.writes == []

    play(scenario)


@pytest.mark.parametrize("lost", ["refused at first", "deleted later", "shared and deleted later"])
def test_a_running_job_is_suspended_although_its_snapshot_is_refused(lost):
    async def scenario(world: World) -> None:
        async with accepting(world, shared=lost.startswith("shared")) as faults:
            if "later" in lost:
                await world.job()
            faults.on("write", core.CONFIG_MAPS).answer(403, message="exceeded quota: configmaps")
            if "later" in lost:
                for found in (await world.user.list(core.CONFIG_MAPS, NS)).items:
                    await world.user.delete(core.CONFIG_MAPS, found.metadata.key)
            else:
                await world.job()
            await world.progress(active=1, ready=1)
            await world.settle(30)
            await world.patch(api.TRAIN_JOBS, spec={"suspend": True})

            assert (await world.job_set()).spec.suspend is True
            assert await snapshot(world) is None

    play(scenario)


@pytest.mark.parametrize("code", [403, 503])
def test_a_deadline_does_not_wait_for_a_snapshot(code):
    async def scenario(world: World) -> None:
        async with accepting(world) as faults:
            faults.on("create", core.CONFIG_MAPS).answer(code, message="no")
            await world.job(activeDeadlineSeconds=30)
            await world.progress(active=1, ready=1)
            await world.settle(25)
            before = (await world.read()).is_finished
            await world.settle(10)
            (ended,) = (c for c in (await world.read()).status.conditions if c.is_true)

            assert not before
            assert (ended.type, ended.reason) == (api.CONDITION_FAILED, "DeadlineExceeded")
            assert await world.job_set() is None

    play(scenario)


def test_at_most_as_many_jobs_as_there_are_workers_start_when_snapshots_are_refused_suddenly():
    async def scenario(world: World) -> None:
        async with accepting(world, workers=4) as faults:
            quota = faults.on("create", core.CONFIG_MAPS).delay(0.02)
            world.quota_exceeded, world.limited = True, "configmaps"
            for number in range(20):
                await world.user.create(api.TRAIN_JOBS, world.body(f"job-{number}"))
            await world.settle(60)
            started = len((await world.user.list(jobset.JOBSETS, NS)).items) - 1
            quota.remove()
            world.quota_exceeded = False
            await world.settle(1200)

            assert started == 4
            assert len((await world.user.list(jobset.JOBSETS, NS)).items) == 21
            assert len((await world.user.list(core.CONFIG_MAPS, NS)).items) == 21

    play(scenario)


def test_of_which_namespaces_accept_snapshots_only_the_latest_are_known(monkeypatch):
    monkeypatch.setattr(own_snapshots, "MAX_ACCEPTING", 2)

    async def scenario(world: World) -> None:
        found = own_snapshots.OwnSnapshots(world.user)
        taken = snapshots.take(await world.user.get(api.TRAINING_RUNTIMES, "rt", NS), shared=False)
        for number, namespace in enumerate(("a", "b", "a", "c")):
            namespaced = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await world.user.apply(core.NAMESPACES, namespaced)
            meta = ObjectMeta(name=f"job-{number}", namespace=namespace, uid=str(number))
            await found.create(api.TrainJob(metadata=meta), taken)

        assert [found.are_accepted(namespace) for namespace in "abc"] == [True, False, True]

    play(scenario)
