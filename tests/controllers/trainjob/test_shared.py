"""Shared snapshots, in a world of their own: one ConfigMap for the jobs of a namespace."""

from __future__ import annotations

import anyio
import pytest

from ktrain.api import core, jobset
from ktrain.api import trainer as api
from ktrain.api.meta import Key
from ktrain.controllers.trainjob.fetching import fetch_snapshots
from ktrain.controllers.trainjob.shared import KEEP_S
from ktrain.controllers.trainjob.snapshot import SHARED

from .world import KEY, NS, World, play


async def shared_config_maps(world: World) -> list[core.ConfigMap]:
    found = await world.user.list(core.CONFIG_MAPS, NS, label_selector=f"{SHARED}=shared")
    return list(found.items)


async def runs_on(world: World, name: str = "job") -> str | None:
    found = await world.user.get(jobset.JOBSETS, name, NS)
    return found.metadata.annotations.get(SHARED)


async def edit_runtime(world: World, version: str = "2") -> None:
    labels = {"template": {"metadata": {"labels": {"v": version}}}}
    await world.patch(api.TRAINING_RUNTIMES, "rt", spec=labels)


def test_a_life_costs_three_writes_after_the_first_of_its_runtime():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job(name="first")
            world.counting.calls.clear()
            await world.job()
            await world.progress(active=1)
            await world.settle()
            await world.progress("Completed", succeeded=1)
            await world.settle(60)

            status = "PATCH trainjobs/job/status"
            assert world.counting.writes == ["PATCH jobsets/job", status, status]
            assert world.counting.reads == []
        (shared,) = await shared_config_maps(world)
        assert shared.metadata.owner_references == ()
        assert await runs_on(world, "first") == await runs_on(world) == shared.metadata.name

    play(scenario)


def test_many_jobs_at_once_write_it_once():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            async with anyio.create_task_group() as users:
                for number in range(30):
                    users.start_soon(lambda number=number: world.job(name=f"job-{number}"))
            await world.settle()

            assert world.counting.writes.count("POST configmaps") == 1
            assert sum(write.startswith("PATCH jobsets/") for write in world.counting.writes) == 30
            assert world.counting.reads == []

    play(scenario)


def test_it_is_immutable_and_each_state_of_the_spec_has_its_own():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job(name="before")
            await world.patch(api.TRAINING_RUNTIMES, "rt", metadata={"labels": {"any": "label"}})
            await world.job(name="same")
            await edit_runtime(world)
            await world.job(name="after")

            assert await runs_on(world, "before") == await runs_on(world, "same") != await runs_on(world, "after")
        stored = await world.user.list(core.untyped(core.CONFIG_MAPS), NS, label_selector=SHARED)
        assert [one["immutable"] for one in stored.items] == [True, True]

    play(scenario)


def test_a_job_keeps_what_it_runs_on_over_restarts_and_changes_of_its_runtime():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job(suspend=True)
            first = await runs_on(world)
        await edit_runtime(world)
        await world.user.delete(api.TRAINING_RUNTIMES, Key(NS, "rt"))
        async with world.operator(shared=True):
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})

            assert await runs_on(world) == first
            resumed = await world.job_set()
            assert (resumed.spec.suspend, resumed.metadata.labels) == (False, {})

    play(scenario)


def test_after_a_restart_it_is_read_once_for_all_its_jobs():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            for number in range(10):
                await world.job(name=f"job-{number}")
        async with world.operator(shared=True):
            await world.settle(60)

            assert world.counting.writes == []
            assert [path for path in world.counting.reads if "/configmaps/" in path] == [
                f"/api/v1/namespaces/{NS}/configmaps/{await runs_on(world, 'job-0')}"
            ]

    play(scenario)


@pytest.mark.parametrize("to_shared", [True, False])
def test_switching_the_mode_leaves_jobs_on_what_they_have(to_shared):
    async def scenario(world: World) -> None:
        async with world.operator(shared=not to_shared):
            await world.job(name="old", suspend=True)
        async with world.operator(shared=to_shared):
            await world.job(name="new", suspend=True)
            await world.patch(api.TRAIN_JOBS, "old", spec={"suspend": False})

            assert (await runs_on(world, "old") is None) is to_shared
            assert (await runs_on(world, "new") is None) is not to_shared
            assert world.counting.writes.count("PATCH jobsets/old") == 1
            own = {one.metadata.name for one in (await world.user.list(core.CONFIG_MAPS, NS)).items}
            assert (f"{'old' if to_shared else 'new'}-runtime-snapshot" in own) is True
            assert len(await shared_config_maps(world)) == 1

    play(scenario)


@pytest.mark.parametrize("suspend", [False, True])
def test_one_that_vanishes_is_written_again_by_who_remembers_it(suspend):
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job(suspend=suspend)
            (before,) = await shared_config_maps(world)
            await edit_runtime(world)
            await world.user.delete(core.CONFIG_MAPS, before.metadata.key)
            await world.settle()

            (after,) = await shared_config_maps(world)
            assert (after.metadata.name, after.data) == (before.metadata.name, before.data)
            assert await runs_on(world) == before.metadata.name

    play(scenario)


def test_one_that_vanished_and_that_nobody_remembers_is_a_diagnosis_with_a_way_out():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job(suspend=True)
        (before,) = await shared_config_maps(world)
        await world.user.delete(core.CONFIG_MAPS, before.metadata.key)
        await edit_runtime(world)
        async with world.operator(shared=True):
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.settle(5)
            diagnosis = (await world.read()).status.diagnosis
            stuck = await world.job_set()
            await world.user.delete(jobset.JOBSETS, KEY)
            await world.settle(10)

            assert diagnosis.reason == "RuntimeUnusable"
            assert f'ConfigMap "{before.metadata.name}" is gone' in diagnosis.message
            assert "delete the JobSet to go on" in diagnosis.message
            assert stuck.spec.suspend
            assert (await world.job_set()).metadata.labels == {"v": "2"}

    play(scenario)


def test_one_that_vanished_comes_back_from_a_runtime_that_is_still_the_same():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job(suspend=True)
        (before,) = await shared_config_maps(world)
        await world.user.delete(core.CONFIG_MAPS, before.metadata.key)
        async with world.operator(shared=True):
            await world.settle()

            (after,) = await shared_config_maps(world)
            assert (after.metadata.name, after.data) == (before.metadata.name, before.data)

    play(scenario)


def test_what_somebody_else_wrote_under_its_name_is_not_believed():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job(suspend=True)
        (ours,) = await shared_config_maps(world)
        await world.user.delete(core.CONFIG_MAPS, ours.metadata.key)
        forged = {"name": ours.metadata.name, "namespace": NS, "labels": {SHARED: "shared"}}
        data = {"runtime": ours.data["runtime"].replace('"i"', '"evil"')}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": forged, "data": data}
        await world.user.create(core.CONFIG_MAPS, body)
        async with world.operator(shared=True):
            await world.patch(api.TRAIN_JOBS, spec={"suspend": False})
            await world.job(name="another")
            await world.settle(5)

            for name in ("job", "another"):
                found = await world.user.get(api.TRAIN_JOBS, name, NS)
                assert "does not hold what its name says" in found.status.diagnosis.message
            assert (await world.job_set()).spec.suspend
            await world.user.delete(core.CONFIG_MAPS, ours.metadata.key)
            await world.settle(60)
            assert not (await world.job_set()).spec.suspend
            assert await runs_on(world, "another") == ours.metadata.name

    play(scenario)


def test_no_template_can_put_a_job_on_a_snapshot():
    async def scenario(world: World) -> None:
        template = {"metadata": {"annotations": {SHARED: "mine", "other": "stays"}}}
        patch = {"manager": "me.io/x", "trainingRuntimeSpec": {"template": template}}
        async with world.operator():
            await world.job(runtimePatches=[patch])

            assert (await world.job_set()).metadata.annotations == {"other": "stays"}

    play(scenario)


def test_a_foreign_object_under_the_name_of_a_jobs_own_snapshot_is_in_nobodys_way():
    async def scenario(world: World) -> None:
        metadata = {"name": "job-runtime-snapshot", "namespace": NS}
        await world.user.create(core.CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        async with world.operator(shared=True):
            await world.job()

            assert await runs_on(world) is not None

    play(scenario)


def test_from_outside_it_is_seen_which_jobs_share_what():
    async def scenario(world: World) -> None:
        async with world.operator():
            await world.job(name="own")
        async with world.operator(shared=True):
            await world.job(name="first")
            await world.job(name="second")
            await world.job(name="done")
            await world.progress("Completed", name="done", succeeded=1)
            await world.settle()
        jobs = (await world.user.list(api.TRAIN_JOBS)).items

        found = await fetch_snapshots(world.user, "", jobs)

        assert sorted(key.name for key in found) == ["first", "own", "second"]
        assert found[Key(NS, "first")] is found[Key(NS, "second")]
        assert {one.name for one in found.values()} == {"rt"}

    play(scenario)


# Collecting


def test_what_no_unfinished_job_refers_to_is_collected_and_nothing_else():
    async def scenario(world: World) -> None:
        other = {"metadata": {"name": "other", "namespace": NS}}
        await world.user.create(core.CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap"} | other)
        async with world.operator(shared=True):
            await world.job(name="done")
            await edit_runtime(world)
            await world.job()
            kept = await runs_on(world)
            await world.progress("Completed", name="done", succeeded=1)
            await world.settle(2)
            both = await shared_config_maps(world)
            await world.settle(KEEP_S * 3)

            assert len(both) == 2
            assert [one.metadata.name for one in await shared_config_maps(world)] == [kept]
            assert [write for write in world.counting.writes if write.startswith("DELETE")] == [
                f"DELETE configmaps/{next(one.metadata.name for one in both if one.metadata.name != kept)}"
            ]
            assert (await world.user.get(core.CONFIG_MAPS, "other", NS)).data == {}

    play(scenario)


def test_a_suspended_job_and_one_that_is_refused_keep_theirs():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job(name="suspended", suspend=True)
            await edit_runtime(world)
            world.quota_exceeded = True
            await world.job(name="refused")
            await world.settle(KEEP_S * 5)

            assert len(await shared_config_maps(world)) == 2

    play(scenario)


def test_one_that_was_collected_is_written_again_for_the_next_job():
    async def scenario(world: World) -> None:
        async with world.operator(shared=True):
            await world.job()
            await world.user.delete(api.TRAIN_JOBS, KEY)
            await world.settle(KEEP_S * 3)
            none = await shared_config_maps(world)
            await world.job()

            assert none == []
            assert [one.metadata.name for one in await shared_config_maps(world)] == [await runs_on(world)]

    play(scenario)
