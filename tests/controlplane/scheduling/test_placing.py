"""
The scheduler, in situations that were shown to the real kube-scheduler and recorded.

Without KUBEBUILDER_ASSETS ours decides, in virtual time; with it the real one does. To record, also KTRAIN_RECORD=1.
"""

import asyncio
import json
import os
import re
from pathlib import Path

import anyio
import pytest
import yaml

from ktrain.framework import Cache, EventRecorder, Manager
from ktrain.local.scheduler import make_scheduler
from ktrain.testing.planes import embedded_plane, real_plane
from ktrain.testing.time import simulate

from ..processes import kube_scheduler
from .staging import Stage

HERE = Path(__file__).parent
IS_RECORDING = bool(os.environ.get("KTRAIN_RECORD"))
STABLE_S = 2.0
PATIENCE_S = 30.0


def load():
    """Return the scenarios by name, and the file of what was recorded of each."""
    scenarios, records = {}, {}
    for path in sorted(HERE.glob("scenarios/*.yaml")):
        for scenario in yaml.safe_load_all(path.read_text()):
            scenarios[scenario["name"]] = scenario
            records[scenario["name"]] = HERE / "recorded" / f"{path.stem}.json"
    return scenarios, records


SCENARIOS, RECORDS = load()


def recorded(name):
    path = RECORDS[name]
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.fixture(scope="module")
def real_scheduler(real_server, tmp_path_factory):
    """Run kube-scheduler beside the real server."""
    if real_server is None:
        yield
        return
    binary = Path(os.environ["KUBEBUILDER_ASSETS"], "kube-scheduler")
    log = tmp_path_factory.mktemp("scheduler") / "log"
    with kube_scheduler(binary, real_server, log=log):
        yield


@pytest.mark.parametrize("name", SCENARIOS)
def test_pods_go_where_upstream_puts_them_and_those_that_go_nowhere_say_why(name, real_server, real_scheduler):
    scenario = SCENARIOS[name]
    seen = on_embedded(scenario) if real_server is None else asyncio.run(on_real(real_server, scenario))
    if IS_RECORDING and real_server is not None:
        RECORDS[name].write_text(json.dumps(recorded(name) | {name: seen}, indent=1, sort_keys=True) + "\n")

    assert seen == recorded(name)[name]


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_scenario_leaves_a_choice(name):
    """Among equal nodes the real kube-scheduler chooses at random, ours the first by name: with other names another."""
    scenario = SCENARIOS[name]
    names = sorted(node for step in (scenario, *scenario.get("then", ())) for node in nodes_of(step))
    others = dict(zip(names, [f"other-{number}" for number in reversed(range(len(names)))], strict=True))

    seen = on_embedded(renamed(scenario, others))

    assert seen == renamed(recorded(name)[name], others)


def nodes_of(step):
    return step.get("nodes", ()) or ([step["node"]] if "node" in step else ())


def renamed(value, names):
    """The same with other names of nodes, in values and in what was told of them."""
    if isinstance(value, dict):
        return {renamed(key, names): renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    if not isinstance(value, str):
        return value
    told = re.sub(
        r"(\bon (?:node )?|nominated to )(\w+)", lambda found: found[1] + names.get(found[2], found[2]), value
    )
    return names.get(value, told)


def on_embedded(scenario):
    async def run(env):
        async with embedded_plane(env) as plane:
            client = plane.client("kube-scheduler")
            cache = Cache(client, env)
            recorder = EventRecorder(client, env, component="default-scheduler")
            controller = make_scheduler(client, cache, env, recorder)
            async with anyio.create_task_group() as tasks:
                await tasks.start(Manager(cache=cache, controllers=[controller], recorder=recorder).run)
                seen = await play(Stage(plane, scenario), scenario, lambda _stage, _number: env.clock.sleep(5))
                tasks.cancel_scope.cancel()
            return seen

    return simulate(run)


async def on_real(server, scenario):
    expected = None if IS_RECORDING else recorded(scenario["name"])[scenario["name"]]
    async with real_plane(server) as plane:
        stage = Stage(plane, scenario)
        try:
            return await play(stage, scenario, settling(expected))
        finally:
            await stage.tear_down()


def settling(expected):
    """Wait until all is as recorded, or, without a recording, until nothing changes any more."""

    async def settle(stage, number):
        last, stable_s, waited_s = None, 0.0, 0.0
        while waited_s < PATIENCE_S:
            seen = await stage.see()
            stable_s = stable_s + 0.5 if seen == last and "nothing" not in seen.values() else 0.0
            last = seen
            if expected is not None and seen == expected[number]:
                break
            if expected is None and (stable_s >= STABLE_S or waited_s > 6):
                break
            await asyncio.sleep(0.5)
            waited_s += 0.5

    return settle


async def play(stage, scenario, settle):
    """Show the pods one by one, then change things; returns what was to be seen each time."""
    await stage.set_up()
    seen = []

    async def look(change, given):
        await change(given)
        await settle(stage, len(seen))
        seen.append(await stage.see())

    for body in stage.pods():
        await look(stage.create, body)
    for step in scenario.get("then", ()):
        if "pods" in step:
            for body in stage.pods(step["pods"]):
                await look(stage.create, body)
        else:
            await look(stage.change, step)
    return seen
