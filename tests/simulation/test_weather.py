"""
Faults between the operator and its API server (F3, F5 to F13, F20), and what other operators were seen to do in them.

However bad it was, the end is that of a run without faults.
"""

import pytest

from ktrain.api.core import CONFIG_MAPS

from .widgets import WIDGETS, Operator, converged, end_state, life

CALM_S = 60.0
"""The weather lasts so long, then it is good."""


def conflicts(faults):
    faults.on("update", times=5).answer(409)
    faults.on("patch", times=5).answer(409)


def lost_answers(faults):
    faults.on("write", probability=0.4).lose_answer()


def lost_requests(faults):
    faults.on("write", probability=0.4).lose_request()


def broken_connections(faults):
    faults.on(probability=0.3).reset()
    faults.on(probability=0.3).refuse()
    faults.on("watch").cut(every_s=2)


def errors(faults):
    for code in (500, 502, 503, 504):
        faults.on(probability=0.1).answer(code)


def errors_of_what_was_done(faults):
    faults.on("write", probability=0.5).answer(500, committed=True)


def throttled(faults):
    faults.on("read").answer(429, retry_after_s=1)
    faults.on("write", probability=0.7).answer(429, retry_after_s=3)


def server_down(faults):
    faults.on("watch").cut()
    faults.on(for_s=10).refuse()


def expired_watches(faults):
    faults.on("watch", where=lambda call: "initial" not in call.verbs, probability=0.7).answer(410)
    faults.on("watch").error_event(410, after_lines=3)


def expired_lists(faults):
    faults.on("initial", times=6).answer(410)
    faults.on("watch").error_event(410, after_lines=4)


def torn_lines(faults):
    faults.on("watch").cut(after_lines=2, mid_line=True)


def repeated_events(faults):
    faults.on("watch").duplicate(3)


def replayed_events(faults):
    faults.on("watch").cut(every_s=1)
    faults.on("watch", times=20).replay(last=4)


def no_permission(faults):
    faults.on(after_s=1).answer(403)
    faults.on("watch", after_s=1).cut()


def not_authenticated(faults):
    faults.on(after_s=1).answer(401)


def slow_writes(faults):
    faults.on("write").delay((0.1, 2.0), answer_s=(0.1, 2.0))


def slow_watches(faults):
    faults.on("watch").slow(0.5)


def silent_watches(faults):
    faults.on("watch").silence(after_lines=5)


def late_children(faults):
    faults.on("watch", CONFIG_MAPS).lag(2)


def late_parents(faults):
    faults.on("watch", WIDGETS).lag(2)


def everything_late(faults):
    faults.on("watch", CONFIG_MAPS).lag(3.7)
    faults.on("watch", WIDGETS).lag(2.9)


WEATHERS = [
    conflicts,
    lost_answers,
    lost_requests,
    broken_connections,
    errors,
    errors_of_what_was_done,
    throttled,
    server_down,
    expired_watches,
    expired_lists,
    torn_lines,
    repeated_events,
    replayed_events,
    no_permission,
    not_authenticated,
    slow_writes,
    slow_watches,
    silent_watches,
    late_children,
    late_parents,
    everything_late,
]


@pytest.fixture
def reference(in_world):
    """The end of a run in good weather."""

    async def scenario(world):
        world.start(Operator().main)
        await life(world)
        await world.settled()
        return end_state(world)

    return in_world(scenario)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weather", WEATHERS, ids=lambda weather: weather.__name__)
def test_the_end_is_that_of_good_weather(in_world, reference, weather, seed):
    async def scenario(world):
        operator = Operator(workers=2)
        process = world.start(operator.main)
        weather(world.faults)
        await life(world)
        await world.env.clock.sleep(CALM_S)
        hits = world.faults.calls(where=lambda call: bool(call.faults))
        world.faults.clear()
        # The longest that anybody waits by rule: a silent watch for 75 s, a back-off for as long as the weather was.
        await world.until(lambda: converged(world), timeout_s=100)
        await world.settled()
        assert hits
        assert not operator.overlaps
        assert process.lives == 1
        assert process.ended is None
        return end_state(world)

    assert in_world(scenario, seed=seed) == reference
