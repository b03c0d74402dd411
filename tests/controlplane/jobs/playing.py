"""
Plays all scenarios on a plane: on the embedded one in virtual time, one after the other; on a real one side by side.

`recorded/NAME.json` is what was seen with the real kube-controller-manager. To record, with KUBEBUILDER_ASSETS set:

    KTRAIN_RECORD=1 pytest tests/controlplane/jobs -k NAME
"""

import asyncio
import copy
import json
import os
from pathlib import Path

import anyio
import yaml

from ktrain.framework import Cache, EventRecorder, Manager
from ktrain.local import jobs
from ktrain.testing.planes import embedded_plane, real_plane
from ktrain.testing.time import simulate

from .acting import Scene

HERE = Path(__file__).parent
RECORDS = HERE / "recorded"
IS_RECORDING = bool(os.environ.get("KTRAIN_RECORD"))
AFTER_S = 3
STABLE_S = 4
"""How long nothing may change before it is recorded; the real controller collects events for a second."""
PATIENCE_S = 25
AT_ONCE = 12


def load_scenarios():
    """Read all scenarios, by name."""
    files = sorted((HERE / "scenarios").glob("*.yaml"))
    found = [entry for file in files for entry in yaml.safe_load_all(file.read_text())]
    return {scenario["name"]: scenario for scenario in found}


def recording(name):
    """Return what was recorded, None if nothing was yet."""
    file = RECORDS / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def record(name, seen):
    """Keep what was seen."""
    (RECORDS / f"{name}.json").write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n")


def play_embedded(scenario):
    """Play in virtual time."""

    async def run(env):
        async with embedded_plane(env) as plane:
            client = plane.client("kube-controller-manager")
            cache = Cache(client, env)
            recorder = EventRecorder(client, env, component="job-controller")
            controllers = jobs.make_controllers(client, cache, env, recorder)
            async with anyio.create_task_group() as tasks:
                await tasks.start(Manager(cache=cache, controllers=controllers, recorder=recorder).run)
                seen = await _play(plane, scenario, LetPass(env))
                tasks.cancel_scope.cancel()
            return seen

    return simulate(run)


def play_real(server, scenarios):
    """
    Play many on a real control plane; returns what was seen, or the error, by name.

    On a machine that others load, steps come too late for each other. So what came out otherwise than recorded is
    played once more when nothing else is: it is the recording that is in question here, not the real controller.
    """

    async def run():
        limit = asyncio.Semaphore(AT_ONCE)
        seen = dict(zip(scenarios, await asyncio.gather(*(one(s, limit) for s in scenarios.values())), strict=True))
        if not IS_RECORDING:
            for name in [name for name in seen if seen[name] != recording(name)]:
                seen[name] = await one(scenarios[name], limit)
        return seen

    async def one(scenario, limit):
        async with limit, real_plane(server) as plane:
            expected = None if IS_RECORDING else recording(scenario["name"])
            try:
                return await _play(plane, scenario, WaitUntil(expected))
            except Exception as error:  # noqa: BLE001 -- belongs to its test
                return error

    return asyncio.run(run())


async def _play(plane, scenario, waiting):
    scenario = copy.deepcopy(scenario)
    scene = Scene(plane, scenario)
    seen = {"created": await scene.create(), "steps": []}
    if "refused" not in seen["created"]:
        seen["steps"].append({"see": await waiting.see(scene, 0, scenario.get("after", AFTER_S))})
        seen["pod"] = await scene.made()
        for number, step in enumerate(scenario["steps"], 1):
            refusal = await scene.act(step)
            after = {"see": await waiting.see(scene, number, step.get("after", AFTER_S))}
            seen["steps"].append({"refused": refusal, **after} if refusal else after)
        seen["events"] = await waiting.events(scene)
    return seen


class LetPass:
    """Lets virtual time pass."""

    def __init__(self, env):
        self._env = env

    async def see(self, scene, _number, after_s):
        for _ in range(after_s):
            await scene.tend()
            await self._env.clock.sleep(1)
        return await scene.see()

    async def events(self, scene):
        return await scene.events()


class WaitUntil:
    """Waits until all is as recorded; when nothing is recorded, until nothing changes any more."""

    def __init__(self, expected):
        self._expected = expected

    async def see(self, scene, number, after_s):
        last, stable_s = None, 0
        for second in range(after_s + PATIENCE_S):
            busy = await scene.tend()
            seen = await scene.see()
            stable_s = stable_s + 1 if seen == last and not busy else 0
            last = seen
            if self._expected is None and second >= after_s and stable_s >= STABLE_S:
                break
            if self._expected and second >= min(after_s, 1) and seen == self._expected["steps"][number]["see"]:
                break
            await asyncio.sleep(1)
        return last

    async def events(self, scene):
        # Events are written after the status that they tell of, seconds later where the machine is loaded.
        for _ in range(PATIENCE_S if self._expected else STABLE_S):
            seen = await scene.events()
            if self._expected and seen == self._expected["events"]:
                break
            await asyncio.sleep(1)
        return seen
