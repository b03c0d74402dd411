"""TrainJobs while writes are slow, lost or throttled, and watches late or short: which calls that costs, and whom."""

import asyncio

import pytest

from ktrain.api.core import CONFIG_MAPS, SECRETS
from ktrain.api.jobset import JOBSETS
from ktrain.api.trainer import TRAIN_JOBS

from ..waiting import until
from .weather import KEYS_OF, MPI, idle

OTHERS = [f"other-{number}" for number in range(20)]


@pytest.fixture
def burst(weather):
    """`await burst("a", "b")` creates jobs together; returns how many seconds their JobSets took."""

    async def run(*names):
        begun_s = weather.now()
        await asyncio.gather(*(weather.create(name) for name in names))
        await weather.until_job_sets(*names)
        return weather.now() - begun_s

    return run


async def test_a_job_whose_write_is_lost_or_throttled_waits_alone_and_no_longer_than_it_must(weather, burst):
    async with weather.operator():
        usual_s = await burst(*(f"before-{number}" for number in range(20)))
        weather.on("apply", JOBSETS, name="lost", times=1).lose_request()
        rule = weather.on("apply", JOBSETS, name="throttled").answer(429, retry_after_s=5)
        created_s = weather.now()
        await weather.create("lost", "throttled")
        others_s = await burst(*OTHERS)
        waiting = [await weather.job_set("lost"), await weather.job_set("throttled")]
        await weather.until_job_sets("lost")
        lost_s = weather.now() - created_s
        rule.remove()
        await weather.until_job_sets("throttled")

        assert others_s < 2 * usual_s + 1
        assert waiting == [None, None]
        assert lost_s < 10 + usual_s
        assert rule.hits <= 4


async def test_writes_that_are_300_ms_slower_cost_sixty_jobs_less_than_three_seconds(weather, burst):
    async with weather.operator():
        # What the machine takes for so many comes on top: here two more programs share it, and the test.
        usual_s = 3 * await burst(*(f"before-{number}" for number in range(20)))
        with weather.on("write").delay(0.3):
            assert await burst(*(f"job-{number}" for number in range(60))) < 3 + usual_s


async def test_a_cache_that_is_two_seconds_late_neither_repeats_writes_nor_makes_keys_anew(weather):
    torch, mpi = ["torch-1", "torch-2", "torch-3"], ["mpi-1", "mpi-2"]
    weather.proxy.on("watch").lag(2)
    async with weather.operator():
        await weather.create(*torch)
        await weather.create(*mpi, runtime=MPI)
        await weather.until_job_sets(*torch, *mpi)
        keys = [await weather.keys(name) for name in mpi]
        await weather.progress(*torch, *mpi, active=1)
        await asyncio.sleep(1)
        await weather.progress(*torch, *mpi, ended="Completed", succeeded=1)
        await weather.until_ended(*torch, *mpi)
        await weather.quiet(2.5)

        assert [await weather.keys(name) for name in mpi] == keys
        for name in torch:
            written = [call for call in weather.writes() if name in call.path or is_snapshot(call, name)]
            assert len(written) <= 4, list(map(str, written))
        assert len(weather.writes()) <= 3 * 4 + 2 * 6
        for name in mpi:
            assert len(weather.writes(resource=SECRETS, name=KEYS_OF.format(name))) == 1


def is_snapshot(call, name):
    return call.route.plural == CONFIG_MAPS.plural and f'"{name}-runtime-snapshot"'.encode() in (call.body or b"")


async def test_watches_that_are_cut_all_the_time_lose_nothing_and_are_no_reason_to_list(weather):
    names = ["one", "two", "three"]
    async with weather.operator():
        lists = weather.proxy.count("initial")
        with weather.proxy.on("watch").cut(every_s=0.2) as cutting:
            await weather.create(*names)
            await weather.until_job_sets(*names)
            await weather.live(*names)
            await until(lambda: cutting.hits > 20)

        assert weather.proxy.count("initial") == lists
        assert len(weather.writes()) <= 4 * len(names)


async def settled(weather):
    """Make jobs of all sorts, with nothing left to do for any; returns their names."""
    usual = {"running": {}, "waiting": {"suspend": True}, "ended": {}}
    for name, spec in usual.items():
        await weather.create(name, **spec)
        await weather.create(f"{name}-mpi", runtime=MPI, **spec)
    names = [f"{name}{suffix}" for name in usual for suffix in ("", "-mpi")]
    await weather.until_job_sets(*names)
    await weather.progress("running", "running-mpi", active=1)
    await weather.progress("waiting", "waiting-mpi", suspended=1)
    await weather.progress("ended", "ended-mpi", ended="Completed", succeeded=1)
    await weather.until_status(*names, where=lambda status: bool(status.jobs_status))
    await weather.quiet()
    return names


async def test_in_a_settled_world_neither_a_restart_nor_a_label_is_a_reason_to_write(weather):
    async with weather.operator():
        names = await settled(weather)
    seen_s = weather.now()
    async with weather.operator() as controllers:
        await idle(controllers)
        for name in names:
            await weather.change(name, metadata={"labels": {"team": "a"}})
        for name in ("waiting", "waiting-mpi"):
            await weather.change(name, JOBSETS, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
        await weather.quiet(1.5)

        assert list(map(str, weather.writes(since_s=seen_s))) == []


async def test_a_wave_of_suspensions_and_resumptions_has_no_write_without_effect(weather):
    names = {"torch": "torch", "mpi": MPI}
    async with weather.operator():
        for name, runtime in names.items():
            await weather.create(name, runtime=runtime, suspend=True)
        await weather.until_job_sets(*names, where=lambda found: found.spec.suspend)
        await weather.quiet()
        keys = await weather.keys("mpi")
        weather.look_for_no_ops()
        seen_s = weather.now()
        for suspend in (False, True):
            for name in names:
                await weather.change(name, spec={"suspend": suspend})
            await weather.until_job_sets(*names, where=lambda found, suspend=suspend: found.spec.suspend == suspend)
            await weather.progress(*names, **{"suspended" if suspend else "active": 1})
            await weather.quiet(0.7)

        assert weather.no_ops == []
        assert await weather.keys("mpi") == keys
        # A cycle is one write of the JobSet, and of the status one for the condition and one for the counters.
        assert len(weather.writes(resource=JOBSETS, since_s=seen_s)) == 2 * len(names)
        assert len(weather.writes(resource=TRAIN_JOBS, since_s=seen_s)) <= 2 * 2 * len(names)
        assert len(weather.writes(since_s=seen_s)) <= 3 * 2 * len(names)
