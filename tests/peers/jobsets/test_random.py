"""
Random JobSets on the JobSet operator and on ktrain: the same is answered to them, and the same becomes of them.

    KTRAIN_PEERS_JOBSETS=1000 KTRAIN_PEERS_SEED=5000 python -m pytest tests/peers/jobsets

tries so many of each, from that seed on. A life that differs is lived again, alone: the operator has one queue for
all retries, so that one JobSet may hold up another for longer than a step is waited for.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from ..stack import missing
from .asking import new, said_of_changes, said_of_new
from .comparing import Place, compare
from .planes import two_planes
from .steps import life

FIRST = int(os.environ.get("KTRAIN_PEERS_SEED") or 0)
MORE = int(os.environ.get("KTRAIN_PEERS_JOBSETS") or 0)
AT_A_TIME = 6


def seeds(count):
    return range(FIRST, FIRST + (MORE or count))


@pytest.fixture(scope="module")
def planes(tmp_path_factory):
    if why := missing():
        pytest.skip(why)
    with two_planes(tmp_path_factory.mktemp("jobsets")) as found:
        yield found


@pytest.fixture(scope="module")
def places(planes):
    """A namespace on each plane, where only questions are asked."""
    found = [Place(plane, "asked") for plane in planes]
    for place in found:
        place.open()
    return found


def test_the_same_is_answered_to_new_jobsets(places):
    differing = {seed: found for seed in seeds(150) if (found := said_of_new(places, seed))}

    assert not differing, {seed: (new(seed), found) for seed, found in differing.items()}


def test_the_same_is_answered_to_changes(places):
    differing = {seed: found for seed in seeds(20) if (found := said_of_changes(places, seed))}

    assert not differing, differing


def test_the_same_becomes_of_the_same(planes):
    def lived(seed, again=""):
        return compare(planes, f"life-{seed}{again}", life(seed))

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        first = dict(zip(seeds(24), pool.map(lived, seeds(24)), strict=True))
    differing = {seed: found for seed, once in first.items() if once and (found := lived(seed, "-again"))}

    assert not differing, {seed: (life(seed), found) for seed, found in differing.items()}
