"""Watches of plugins that map events to TrainJobs: with the caches, indexes and predicates, and when they fail."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import structlog

from ktrain.api import core
from ktrain.api import trainer as api
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key
from ktrain.controllers.trainjob.indexes import Indexes, MappedKeys
from ktrain.framework.controller.predicates import Changed
from ktrain.pipeline import Index, Mapped, Watch

from .world import KEY, NS, World, play

TEAM = "acme/team"
"""A label of TrainJobs: whose budget they spend."""


def teams(job: api.TrainJob):
    return (job.metadata.labels[TEAM],) if TEAM in job.metadata.labels else ()


BY_TEAM = Index(api.TRAIN_JOBS, teams)


def of_team(config_map: core.ConfigMap, world):
    return [job.key for job in world.find(BY_TEAM, config_map.data.get("team", ""))]


class Budgets:
    """Counts reconciles that build, by job, and reads the budget of the job's team."""

    name = "Budgets"
    keys = staticmethod(of_team)
    index = BY_TEAM

    def __init__(self, **how) -> None:
        self.how = how
        self.built: list[str] = []

    def watches(self):
        watch = Watch(core.CONFIG_MAPS, Mapped(self.keys), indexes=(self.index,), label_selector="acme=", **self.how)
        return (watch,)

    def enforce_ml_policy(self, info, ctx) -> None:
        self.built.append(info.job.metadata.name)


def budget(name: str, **data: str) -> dict:
    metadata = {"name": name, "namespace": NS, "labels": {"acme": ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def jobs_of_two_teams(world: World) -> None:
    for name, team in (("one", "red"), ("two", "blue"), ("three", "red")):
        body = world.body(name, suspend=True)
        await world.user.create(api.TRAIN_JOBS, body | {"metadata": body["metadata"] | {"labels": {TEAM: team}}})
    await world.settle(60)


def test_an_event_reconciles_the_jobs_that_the_mapping_finds_as_it_was_and_as_it_is():
    async def scenario(world: World) -> None:
        budgets = Budgets()
        world.plugins += (budgets,)
        async with world.operator():
            await jobs_of_two_teams(world)
            told = []
            for change in (
                lambda: world.user.create(core.CONFIG_MAPS, budget("b", team="blue")),
                lambda: world.user.patch(core.CONFIG_MAPS, Key(NS, "b"), {"data": {"gpus": "8"}}),
                lambda: world.user.patch(core.CONFIG_MAPS, Key(NS, "b"), {"data": {"team": "red"}}),
                lambda: world.user.delete(core.CONFIG_MAPS, Key(NS, "b")),
                lambda: world.user.create(core.CONFIG_MAPS, budget("c", team="green")),
            ):
                budgets.built.clear()
                await change()
                await world.settle()
                told.append(sorted(budgets.built))

            assert told == [["two"], ["two"], ["one", "three", "two"], ["one", "three"], []]

    play(scenario)


def test_a_job_that_moves_to_another_value_of_the_index_is_found_there():
    async def scenario(world: World) -> None:
        budgets = Budgets()
        world.plugins += (budgets,)
        async with world.operator():
            await jobs_of_two_teams(world)
            await world.patch(api.TRAIN_JOBS, "one", metadata={"labels": {TEAM: "blue"}})
            budgets.built.clear()
            await world.user.create(core.CONFIG_MAPS, budget("b", team="blue"))
            await world.settle()

            assert sorted(budgets.built) == ["one", "two"]

    play(scenario)


def test_events_that_the_predicate_drops_reconcile_nothing():
    async def scenario(world: World) -> None:
        budgets = Budgets(predicate=Changed(lambda config_map: config_map.data))
        world.plugins += (budgets,)
        async with world.operator():
            await jobs_of_two_teams(world)
            await world.user.create(core.CONFIG_MAPS, budget("b", team="blue"))
            await world.settle()
            budgets.built.clear()
            await world.user.patch(core.CONFIG_MAPS, Key(NS, "b"), {"metadata": {"annotations": {"a": "b"}}})
            await world.settle()

            assert budgets.built == []

    play(scenario)


def test_hooks_read_the_same_indexes():
    class Reading(Budgets):
        seen = None

        def enforce_ml_policy(self, info, ctx):
            self.seen = [job.metadata.name for job in ctx.find(BY_TEAM, "red")]

    async def scenario(world: World) -> None:
        reading = Reading()
        world.plugins += (reading,)
        async with world.operator():
            await jobs_of_two_teams(world)
            await world.patch(api.TRAIN_JOBS, "two", spec={"trainer": {"numNodes": 3}})

            assert reading.seen == ["one", "three"]

    play(scenario)


def test_an_index_that_no_watch_declares_is_an_error_that_names_the_plugin():
    class Undeclared(Budgets):
        def enforce_ml_policy(self, info, ctx):
            ctx.find(Index(api.TRAIN_JOBS, lambda job: ()), "x")

    async def scenario(world: World) -> None:
        world.plugins += (Undeclared(),)
        async with world.operator():
            await world.job()
            await world.settle(60)

            message = (await world.read()).status.diagnosis.message
            assert "plugin Budgets failed" in message
            assert "no Watch declares this index of trainjobs" in message

    play(scenario)


def fails(*_):
    raise LookupError("no such team")


def hangs(*_):
    time.sleep(30)


def texts(*_):
    return ["default/job"]


def leaves(*_):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (fails, "no such team"),
        (leaves, "leaves: 3"),
        (texts, "a mapping returned 'default/job', where a Key of a TrainJob is expected"),
        (hangs, "hangs: it did not return within 1 s"),
    ],
)
def test_a_mapping_that_fails_costs_its_own_answer_only(keys, says):
    class Failing(Budgets):
        pass

    Failing.keys = staticmethod(keys)

    async def scenario(world: World) -> None:
        other = Budgets()
        failing = Failing()
        failing.name = "Failing"
        world.plugins += (failing, other)
        async with world.operator():
            await jobs_of_two_teams(world)
            other.built.clear()
            with structlog.testing.capture_logs() as logs:
                await world.user.create(core.CONFIG_MAPS, budget("b", team="blue"))
                await world.settle()

            assert set(other.built) == {"two"}
            assert [entry["object"] for entry in logs if entry["event"] == "event.lost"] == [f"{NS}/b"]
            with pytest.raises((LookupError, RuntimeError, TypeError), match=says):
                MappedKeys(Mapped(keys), Indexes({}, ()))(budget("b"))

    play(scenario)


@pytest.mark.parametrize("values", [fails, leaves, hangs, lambda job: "team", lambda job: None, lambda job: [7]])
def test_an_index_that_fails_on_a_job_does_not_cost_the_job(values):
    class Failing(Budgets):
        index = Index(api.TRAIN_JOBS, values)

        def keys(self, config_map, world):
            return ()

    async def scenario(world: World) -> None:
        world.plugins += (Failing(),)
        async with world.operator() as cache:
            await world.job()

            assert cache.informer(api.TRAIN_JOBS).get(KEY) is not None
            assert await world.job_set() is not None

    play(scenario)


def test_the_plugin_of_the_guide_keeps_suspended_jobs_up_to_date():
    page = (Path(__file__).parents[3] / "docs" / "plugins" / "own.md").read_text()
    (source,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Budgets" in block]
    guide: dict = {"__name__": "ktrain_budgets"}
    exec(source, guide)

    async def gpus(world: World, name: str):
        job_set = await world.user.get(core.untyped(JOBSETS), name, NS)
        (container,) = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
        return next((entry["value"] for entry in container.get("env", ()) if entry["name"] == "ACME_GPUS"), None)

    async def scenario(world: World) -> None:
        world.plugins += (guide["Budgets"](),)
        red = budget("red", gpus="4")
        red["metadata"]["labels"] = {"acme.example/budget": "true"}
        async with world.operator():
            for name, suspend in (("waits", True), ("runs", False)):
                body = world.body(name, suspend=suspend)
                labels = {"labels": {guide["TEAM"]: "red"}}
                await world.user.create(api.TRAIN_JOBS, body | {"metadata": body["metadata"] | labels})
            await world.settle()
            assert await gpus(world, "waits") is None
            await world.user.create(core.CONFIG_MAPS, red)
            await world.settle()
            assert await gpus(world, "waits") == "4"
            await world.user.patch(core.CONFIG_MAPS, Key(NS, "red"), {"data": {"gpus": "8"}})
            await world.settle()

            assert await gpus(world, "waits") == "8"
            assert await gpus(world, "runs") is None, "a job that runs stays as it is"

    play(scenario)
