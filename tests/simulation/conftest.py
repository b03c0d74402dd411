import pytest

from ktrain.testing.simulation import World
from ktrain.testing.time import simulate

from .widgets import CRD, children_are_owned, status_is_true


@pytest.fixture
def in_world():
    """Run `scenario(world)` in a world with Widgets and the invariants above."""

    def run(scenario, seed=0):
        async def main(env):
            async with World.made(env, crds=[CRD]) as world:
                world.always(children_are_owned)
                world.always(status_is_true())
                return await scenario(world)

        return simulate(main, seed=seed)

    return run
