"""TrainJobs whose children are not what they seem: late, foreign, gone, or not to be got rid of."""

import asyncio

from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.trainer import TRAIN_JOBS

from ..waiting import until
from .weather import MPI

LATE_S = 1.5


async def test_a_job_made_again_under_its_name_gets_nothing_from_the_old_ones_child(weather):
    async with weather.operator():
        await weather.create("job")
        old = await weather.until_job_sets("job")
        await weather.progress("job", ended="Completed", succeeded=1)
        await weather.until_ended("job")
        with weather.proxy.on("watch", JOBSETS).lag(LATE_S):
            await weather.delete("job")
            await weather.collect("job")
            await weather.create("job")
            new = await weather.job()
            made = await weather.until_job_sets("job", where=lambda found: found.metadata.uid != old.metadata.uid)
            await asyncio.sleep(LATE_S)

        assert made.metadata.is_controlled_by(new.metadata.uid)
        assert (await weather.job()).status.conditions == ()
        await weather.live("job")


async def test_a_foreign_job_set_with_our_name_is_left_alone_and_not_believed(weather):
    body = {
        "apiVersion": JOBSETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": "job", "namespace": weather.plane.namespace},
        "spec": {"suspend": True, "replicatedJobs": [{"name": "mine", "template": {"spec": {"template": POD}}}]},
    }
    foreign = await weather.client.create(untyped(JOBSETS), body)
    async with weather.operator():
        await weather.create("job")
        job = await weather.until_status("job", where=lambda status: status.diagnosis is not None)
        await weather.progress("job", ended="Completed", succeeded=1)
        await weather.quiet()

        assert job.status.diagnosis.reason == "NameTaken"
        assert "has no controller, so it is left alone" in job.status.diagnosis.message
        assert (await weather.job()).status.conditions == ()
        stored = await weather.client.get(untyped(JOBSETS), "job", weather.plane.namespace)
        assert stored["spec"] == foreign["spec"]
        assert weather.writes(resource=JOBSETS) == []

        await weather.delete("job", JOBSETS)
        freed_s = weather.now()
        await weather.until_job_sets("job", where=lambda found: found.metadata.is_controlled_by(job.metadata.uid))
        assert weather.now() - freed_s < 2  # its back-off is at more than that by now


async def test_a_host_file_of_somebody_else_that_is_seen_late_is_not_taken_over(weather):
    maps, namespace = untyped(CONFIG_MAPS), weather.plane.namespace
    async with weather.operator():
        weather.proxy.on("watch", CONFIG_MAPS).lag(0.3)
        metadata = {"name": "job-mpi-hostfile", "namespace": namespace}
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        theirs = await weather.client.create(maps, head | {"data": {"mine": "precious"}})
        await weather.create("job", runtime=MPI)
        job = await weather.until_status("job", where=lambda status: status.diagnosis is not None)
        await weather.quiet()

        assert "is not this TrainJob's, so it is left alone" in job.status.diagnosis.message
        refused = [call.status for call in weather.writes("apply", CONFIG_MAPS)]
        assert set(refused) == {409}
        assert await weather.client.get(maps, "job-mpi-hostfile", namespace) == theirs
        assert await weather.job_set() is None


POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}


async def test_the_job_set_of_a_job_that_is_gone_or_done_is_not_made_again_by_a_late_cache(weather):
    async with weather.operator():
        await weather.create("gone", "done")
        await weather.until_job_sets("gone", "done")
        weather.proxy.on("watch", TRAIN_JOBS).lag(LATE_S)
        await weather.progress("done", ended="Completed", succeeded=1)
        await weather.until_ended("done")
        await weather.delete("gone")
        gone_s = weather.now()
        for name in ("gone", "done"):
            await weather.collect(name)
        await asyncio.sleep(2 * LATE_S)

        assert weather.writes(resource=JOBSETS, since_s=gone_s) == []
        assert [await weather.job_set("gone"), await weather.job_set("done")] == [None, None]


async def test_a_deadline_is_in_the_status_before_the_one_job_set_goes_however_long_that_takes(weather):
    async with weather.operator():
        rule = weather.on("delete", JOBSETS, name="stuck").answer(500)
        await weather.create("free", "stuck", activeDeadlineSeconds=2)
        await weather.until_job_sets("free", "stuck")
        await weather.until_ended("free", "stuck", how="Failed")
        await weather.plane.wait_for(JOBSETS, "free", lambda found: found is None)
        await until(lambda: rule.hits > 2)
        rule.remove()
        await weather.plane.wait_for(JOBSETS, "stuck", lambda found: found is None)
        await weather.quiet()

        for name in ("free", "stuck"):
            (found,) = (await weather.job(name)).status.conditions
            assert (found.type, found.reason) == ("Failed", "DeadlineExceeded")
            made, said, *refused, deleted = (
                (call.verb, call.route.plural, call.status) for call in weather.writes(name=name)
            )
            assert (made, said) == (("patch", "jobsets", 201), ("patch", "trainjobs", 200))
            assert set(refused) == ({("delete", "jobsets", 500)} if name == "stuck" else set())
            assert deleted == ("delete", "jobsets", 200)
