"""How many replicas a load calls for: the documented rule, its tolerance, and pods of which nothing is known."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrain.local.autoscaler.arithmetic import Load, Target, Tolerance, Unmeasured, recommend

HALF = Target(percent=50)
USUAL = Tolerance()


def loads(*used, requested=1000):
    return [Load(f"p{index}", one, requested) for index, one in enumerate(used)]


@pytest.mark.parametrize(
    ("used", "target", "replicas"),
    [
        ((900, 900), HALF, 4),
        ((500, 500), HALF, 2),
        ((540, 560), HALF, 2),  # 55 %: within the tolerance
        ((560, 560), HALF, 3),
        ((450, 450), HALF, 2),
        ((440, 440), HALF, 2),  # 88 % of the target, and rounded up to what there is
        ((100, 100), HALF, 1),
        ((0, 0, 0), HALF, 0),
        ((300, 100), Target(amount=100), 4),
        ((100, 100), Target(amount=100), 2),
    ],
)
def test_the_ratio_of_the_load_to_its_target_is_that_of_the_replicas(used, target, replicas):
    assert recommend(len(used), loads(*used), target, USUAL).replicas == replicas


def test_what_was_measured_is_told():
    found = recommend(2, loads(900, 700), HALF, USUAL)

    assert (found.average, found.percent) == (800, 80)
    assert recommend(2, loads(900, 700), Target(amount=100), USUAL).percent is None


@pytest.mark.parametrize(
    ("used", "replicas"),
    [
        ((900, None), 2),  # counted as idle, 45 % are within the tolerance
        ((900, 900, None), 4),  # 60 %: fewer than the 6 that the measured ones call for
        ((100, None), 2),  # counted as fully busy
        ((100, 100, 100, None), 3),  # 32 %
        ((500, None), 2),
    ],
)
def test_a_pod_of_which_nothing_is_known_speaks_against_a_change(used, replicas):
    assert recommend(len(used), loads(*used), HALF, USUAL).replicas == replicas


def test_a_share_needs_requests_and_an_amount_does_not():
    free = [Load("p0", 300, None)]

    with pytest.raises(Unmeasured, match="pod p0 requests no cpu"):
        recommend(1, free, HALF, USUAL)
    assert recommend(1, free, Target(amount=100), USUAL).replicas == 3


@pytest.mark.parametrize("none", [[], loads(None, None)])
def test_where_no_pod_was_measured_nothing_is_recommended(none):
    with pytest.raises(Unmeasured, match="no pod of the target has been measured"):
        recommend(2, none, HALF, USUAL)


USED = st.lists(st.integers(0, 8000), min_size=1, max_size=30)
PERCENT = st.integers(1, 300)
UNKNOWN = st.lists(st.none(), max_size=10)


@given(used=USED, percent=PERCENT)
def test_the_recommended_replicas_would_bear_the_load_and_one_fewer_would_not(used, percent):
    found = recommend(len(used), loads(*used), Target(percent=percent), Tolerance(Fraction(0), Fraction(0)))

    whole = sum(used) * 100 // (1000 * len(used)) * len(used)  # percent of one pod, as rounded down as it is shown
    assert found.replicas == math.ceil(Fraction(whole, percent))


@given(used=USED, unknown=UNKNOWN, percent=PERCENT)
def test_pods_of_which_nothing_is_known_never_turn_the_direction_nor_add_to_it(used, unknown, percent):
    current, target = len(used) + len(unknown), Target(percent=percent)
    found = recommend(current, loads(*used, *unknown), target, USUAL).replicas
    if not unknown:
        return
    ratio = Fraction(sum(used) * 100 // (1000 * len(used)), percent)
    assert found >= current if ratio > 1 else found <= current
    if ratio > 1:
        assert found <= max(current, math.ceil(ratio * current))


@given(used=USED, percent=PERCENT, more=st.integers(1, 1000))
def test_more_load_never_calls_for_fewer_replicas(used, percent, more):
    busier = [one + more for one in used]
    before, after = (
        recommend(len(used), loads(*amounts), Target(percent=percent), USUAL).replicas for amounts in (used, busier)
    )
    assert after >= before
