"""All of a gang, or none of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.local.scheduler.gangs import COSCHEDULING, KUBERNETES, VOLCANO

from .conftest import a_group, a_node, a_pod, bound, in_group, plan, waiting

APIS = (KUBERNETES, COSCHEDULING, VOLCANO)


@pytest.mark.parametrize("api", APIS)
def test_a_gang_starts_when_there_is_room_for_as_many_as_it_needs(api):
    pods = [a_pod(f"p{n}", gpu=1, **in_group("g", api)) for n in range(3)]

    small = plan([a_node("n", gpu=2)], pods, a_group("g", 3, api))
    large = plan([a_node("n", gpu=2), a_node("m", gpu=1)], pods, a_group("g", 3, api))

    assert bound(small) == {}
    assert waiting(small)["p0"] == (
        "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled: 2 fit, 3 are needed"
    )
    assert waiting(small)["p2"].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert len(bound(large)) == 3


@pytest.mark.parametrize("api", APIS)
def test_a_gang_waits_until_enough_pods_exist(api):
    made = plan([a_node("n", gpu=8)], [a_pod("p0", gpu=1, **in_group("g", api))], a_group("g", 2, api))

    assert bound(made) == {}
    assert waiting(made) == {"p0": "waiting for minCount pods from a gang to appear in scheduling queue"}


def test_a_pod_whose_group_does_not_exist_waits_for_it():
    made = plan([a_node("n")], [a_pod("p", **in_group("g"))])

    assert waiting(made) == {"p": 'waiting for pods\'s pod group "g" to appear in scheduling queue'}


def test_where_the_kind_of_a_group_is_not_served_its_pods_go_one_by_one():
    made = plan([a_node("n", gpu=1)], [a_pod(f"p{n}", gpu=1, **in_group("g")) for n in range(2)], served=())

    assert len(bound(made)) == 1


def test_what_a_gang_gives_back_others_may_have_in_the_same_pass():
    gang = [a_pod(f"g{n}", gpu=1, created=0, **in_group("g")) for n in range(3)]
    single = a_pod("single", gpu=2, created=1)

    made = plan([a_node("n", gpu=2)], [*gang, single], a_group("g", 3))

    assert bound(made) == {"single": "n"}


def test_pods_beyond_what_a_gang_needs_start_as_there_is_room():
    pods = [a_pod(f"p{n}", gpu=1, **in_group("g")) for n in range(4)]

    assert len(bound(plan([a_node("n", gpu=3)], pods, a_group("g", 2)))) == 3


def test_a_pod_that_replaces_one_of_a_running_gang_needs_no_gang_of_its_own():
    running = [a_pod(f"r{n}", gpu=1, node="n", phase="Running", **in_group("g")) for n in range(2)]

    made = plan([a_node("n", gpu=3)], [*running, a_pod("new", gpu=1, **in_group("g"))], a_group("g", 3))

    assert bound(made) == {"new": "n"}


def test_a_basic_group_is_no_gang():
    api, group = a_group("g", 1)
    basic = type(group)(metadata=group.metadata)

    made = plan([a_node("n", gpu=1)], [a_pod(f"p{n}", gpu=1, **in_group("g")) for n in range(2)], (api, basic))

    assert len(bound(made)) == 1


def test_gated_members_exist_but_do_not_start():
    gated = a_pod("gated", schedulingGates=[{"name": "x"}], **in_group("g"))

    made = plan([a_node("n", gpu=2)], [gated, a_pod("free", **in_group("g"))], a_group("g", 2))

    assert bound(made) == {}


GANGS = st.lists(
    st.tuples(st.sampled_from(APIS), st.integers(1, 5), st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=4
)


@settings(max_examples=150)
@given(GANGS, st.lists(st.integers(0, 5), max_size=4))
def test_of_every_gang_enough_start_or_none(gangs, gpus):
    nodes = [a_node(f"n{number}", gpu=count) for number, count in enumerate(gpus)]
    groups = [a_group(f"g{number}", least, api) for number, (api, least, _, _) in enumerate(gangs)]
    pods = [
        a_pod(f"g{number}-{index}", gpu=1, priority=priority, **in_group(f"g{number}", api))
        for number, (api, _, size, priority) in enumerate(gangs)
        for index in range(size)
    ]

    placed = bound(plan(nodes, pods, *groups))

    for number, (_, least, _, _) in enumerate(gangs):
        started = sum(name.startswith(f"g{number}-") for name in placed)
        assert started == 0 or started >= least
    for number, count in enumerate(gpus):
        assert sum(node == f"n{number}" for node in placed.values()) <= count
