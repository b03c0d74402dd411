"""Trying again: how often, how fast, and when not."""

import random
from threading import Event

import pytest

from ktrain.initializers.errors import Interrupted, NothingThere
from ktrain.initializers.retry import Retry, Stopped


class Line:
    """Comes so far in each attempt, and never to the end; `failing` waits for nobody."""

    def __init__(self, *reached):
        self.reached = iter(reached)
        self.at = 0
        self.attempts = 0

    def __call__(self):
        self.attempts += 1
        self.at = next(self.reached, self.at)
        raise Interrupted("broke off")

    def progress(self):
        return self.at


class Waits(Event):
    """An event whose waits are noted and over at once."""

    def __init__(self):
        super().__init__()
        self.delays = []

    def wait(self, timeout=None):
        self.delays.append(timeout)
        return self.is_set()


@pytest.mark.parametrize(
    ("reached", "attempts"),
    [
        ((), 3),  # nowhere, three times in a row
        ((1, 2, 3, 4), 6),  # four that came farther (the last is the first failure), then two more
        ((5, 0, 5, 0, 5), 3),  # what starts anew again and again comes no farther
    ],
)
def test_attempts_that_lead_nowhere_are_counted(reached, attempts):
    line = Line(*reached)

    with pytest.raises(Interrupted):
        Retry(attempts=3).call("x", line, Waits(), line.progress)
    assert line.attempts == attempts


def test_delays_double_to_a_cap_and_are_jittered():
    waits = Waits()

    with pytest.raises(Interrupted):
        Retry(attempts=8, base_s=1, cap_s=10, random=random.Random(7)).call("x", Line(), waits)

    bounds = [1, 2, 4, 8, 10, 10, 10]
    assert all(most / 2 <= delay <= most for delay, most in zip(waits.delays, bounds, strict=True))
    assert len(set(waits.delays)) == len(waits.delays)


@pytest.mark.parametrize(("asked", "waited"), [(20, 20), (10_000, 300)])
def test_a_source_that_asks_for_time_gets_it_within_reason(asked, waited):
    assert Retry().delay_s(1, asked) == waited


def test_what_is_no_interruption_is_not_tried_again():
    attempts = []

    def refuse():
        attempts.append(1)
        raise NothingThere("gone")

    with pytest.raises(NothingThere):
        Retry().call("x", refuse, Waits())
    assert len(attempts) == 1


def test_waiting_ends_when_all_is_stopped():
    stop = Event()
    stop.set()

    with pytest.raises(Stopped):
        Retry(base_s=1000, cap_s=1000).call("x", Line(), stop)
