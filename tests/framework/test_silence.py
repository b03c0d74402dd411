"""How soon a watch that is dead without a word is given up, and what that costs those that are only quiet."""

from itertools import pairwise

import pytest

from ktrain.api.core import PODS
from ktrain.framework.cache.reflector import WATCH_TIMEOUT_S
from ktrain.framework.cache.silence import BOOKMARK_INTERVAL_S, GRACE_S, Silence
from ktrain.testing.time import simulate

from .following import SYNCED, bookmark, event, lists, pod, running, watches

FOREVER = float("inf")
MINUTE = BOOKMARK_INTERVAL_S


def noticed(script, *, seconds=400.0, **options):
    """When each stream was opened, in virtual seconds, and how the watches ended."""
    times = []

    class Timed(type(script)):
        def stream(self, *args, **kwargs):
            times.append(clock())
            return super().stream(*args, **kwargs)

    timed = Timed(script.answers, script.streams, script.calls)

    def clock():
        return env_box[0].clock.monotonic()

    env_box = []

    async def main(env):
        env_box.append(env)
        async with running(timed, env, **options) as cache:
            informer = cache.informer(PODS)
            await env.clock.sleep(seconds)
            return times, informer.statistics()

    return simulate(main)


def test_a_watch_that_dies_after_showing_its_rhythm_is_noticed_by_the_bookmark_that_is_due(script):
    script.streams += [[*SYNCED, MINUTE, bookmark(6), 59.0, bookmark(7), 3.0, event("ADDED", pod("c", 8)), FOREVER]]

    times, statistics = noticed(script, seconds=200)

    assert times[1] == pytest.approx(2 * MINUTE - 1 + MINUTE + GRACE_S)
    assert statistics.restarts["silent"] == 1
    assert sum(statistics.relists.values()) == 0
    assert watches(script)[1]["resourceVersion"] == "8"


def test_ordinary_events_do_not_put_the_deadline_off(script):
    chatter = [step for n in range(50) for step in (1.2, event("MODIFIED", pod("a", 10 + n)))]
    script.streams += [[*SYNCED, MINUTE, bookmark(6), *chatter, FOREVER]]

    times, _ = noticed(script, seconds=200)

    assert times[1] == pytest.approx(2 * MINUTE + GRACE_S)


def test_the_first_stream_of_all_is_held_to_the_rhythm_too(script):
    script.streams += [[*SYNCED, 50.0, event("ADDED", pod("c", 8)), FOREVER]]

    times, statistics = noticed(script, seconds=100)

    assert times[1] == pytest.approx(MINUTE + GRACE_S)
    assert (statistics.restarts["silent"], sum(statistics.relists.values())) == (1, 0)


def test_a_server_that_has_missed_a_bookmark_and_never_sent_one_is_given_75_seconds_of_silence(script):
    script.streams += [[*SYNCED, FOREVER], [70.0, event("ADDED", pod("c", 8)), FOREVER]]

    times, _ = noticed(script, seconds=230)

    assert times[2] - times[1] == pytest.approx(70 + 75)


def test_a_kind_that_is_only_quiet_keeps_its_watch(script):
    script.streams += [[*SYNCED, *[step for n in range(4) for step in (61.4, bookmark(6 + n))], FOREVER]]

    times, statistics = noticed(script, seconds=4 * 61.4 + 1)

    assert (len(times), sum(statistics.restarts.values())) == (1, 0)


def test_after_two_misses_in_a_row_the_rhythm_has_to_be_shown_anew(script):
    first, second, third = (
        [step for n in range(200) for step in (1.0, event("MODIFIED", pod("a", start + n)))]
        for start in (100, 300, 500)
    )
    script.streams += [[*SYNCED, MINUTE, bookmark(6), *first], second, [*third, FOREVER]]

    times, _ = noticed(script, seconds=400)

    first, second, *later = (b - a for a, b in pairwise(times))
    assert (first, second) == (pytest.approx(2 * MINUTE + GRACE_S), pytest.approx(MINUTE + GRACE_S))
    assert all(length > 2 * MINUTE for length in later)


def test_who_asks_for_short_watches_notices_at_the_latest_five_seconds_after_the_longest(script):
    script.streams += [
        [*SYNCED, *[step for n in range(40) for step in (1.0, event("MODIFIED", pod("a", 9 + n)))], FOREVER]
    ]

    times, statistics = noticed(script, seconds=60, watch_timeout_s=(20, 30))

    assert 20 + 5 <= times[1] <= 30 + 5
    assert 20 <= int(watches(script)[0]["timeoutSeconds"]) <= 30
    assert statistics.restarts["silent"] >= 1
    assert lists(script) == []


def test_a_server_that_does_not_end_a_watch_when_it_was_asked_to_is_left():
    silence = Silence()

    silence.missed()
    silence.opened(100.0, 400)

    assert silence.deadline_s == 505.0
    assert WATCH_TIMEOUT_S == (300, 600)


def test_a_bookmark_before_the_end_of_a_watch_proves_no_rhythm():
    silence = Silence()
    silence.missed()
    silence.opened(0.0, 400)

    silence.bookmark(0.2)
    silence.bookmark(28.0)

    assert silence.deadline_s == 405.0
    silence.bookmark(28.0 + MINUTE)
    assert silence.deadline_s == 28.0 + 2 * MINUTE + GRACE_S


@pytest.mark.parametrize(("seconds", "age"), [(29, 29), (40, 10)])
def test_the_age_of_what_was_heard_last_grows_until_something_comes(script, seconds, age):
    script.streams += [[*SYNCED, 30.0, bookmark(6), FOREVER]]

    assert noticed(script, seconds=seconds)[1].age_s == pytest.approx(age)
