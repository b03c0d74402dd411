"""While the cluster does not serve JobSets: each TrainJob says so, once, and goes on when they come."""

from ktrain.api import assets, core
from ktrain.api.meta import Key

from .world import NS, World, play

DEFINITION = Key("", "jobsets.jobset.x-k8s.io")


async def events_of(world, name="job"):
    events = (await world.user.list(core.untyped(core.EVENTS), NS)).items
    return [one for one in events if one["regarding"]["name"] == name]


def test_every_job_says_once_what_is_missing_and_starts_when_it_comes():
    async def scenario(world: World) -> None:
        await world.user.delete(core.untyped(core.CUSTOM_RESOURCE_DEFINITIONS), DEFINITION)
        await world.job()
        async with world.operator():
            await world.job("later")
            await world.settle(900)
            (event,), (other,) = await events_of(world), await events_of(world, "later")

            assert (event["type"], event["reason"]) == ("Warning", "TrainJobResourcesCreationFailed")
            assert "the cluster does not serve jobsets.jobset.x-k8s.io," in event["note"]
            assert event["note"] == other["note"]
            assert not event.get("series"), "it is said once"
            assert world.counting.writes == []

            world.server.install_crds(assets.crds())
            await world.settle(600)
            assert await world.job_set() is not None
            await world.job("last")
            assert await events_of(world, "last") == []

    play(scenario)


def test_a_job_of_another_manager_is_left_alone():
    async def scenario(world: World) -> None:
        await world.user.delete(core.untyped(core.CUSTOM_RESOURCE_DEFINITIONS), DEFINITION)
        await world.job(managedBy="kueue.x-k8s.io/multikueue")
        async with world.operator():
            await world.settle(60)
            assert await events_of(world) == []

    play(scenario)
