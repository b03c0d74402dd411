"""Who goes where, and why the rest waits. What upstream does too is in tests/controlplane/scheduling."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from ktrain.local.scheduler.resources import requests_of

from .conftest import GPU, a_node, a_pod, bound, plan, waiting


def test_the_more_important_pod_goes_first_then_the_older_one():
    vip = a_pod("vip", gpu=1, created=3, priority=9)
    pods = [a_pod("young", gpu=1, created=2), a_pod("old", gpu=1, created=1), vip]

    assert list(bound(plan([a_node("n", gpu=2)], pods))) == ["vip", "old"]


def test_measured_amounts_are_advice_and_said_ones_are_counted():
    pods = [a_pod("a", cpu="6", memory="1Gi"), a_pod("b", cpu="6", memory="1Gi")]

    measured = plan([a_node("n", cpu=8, memory="8Gi", advisory=("cpu", "memory"))], pods)
    said = plan([a_node("n", cpu=8, memory="8Gi", advisory=("memory",))], pods)

    assert set(bound(measured)) == {"a", "b"}
    assert set(bound(said)) == {"a"}
    assert waiting(said)["b"].startswith("0/1 nodes are available: 1 Insufficient cpu. ")


def test_pods_spread_over_equal_nodes_in_the_order_of_their_names():
    nodes = [a_node(name, cpu=8, memory="8Gi") for name in ("b", "a", "c")]

    made = plan(nodes, [a_pod(name, cpu="1", memory="1Gi", created=n) for n, name in enumerate("xyz")])

    assert bound(made) == {"x": "a", "y": "b", "z": "c"}


def test_a_pod_that_has_ended_holds_nothing():
    pods = [a_pod("done", gpu=1, node="n", phase="Succeeded"), a_pod("next", gpu=1)]

    assert bound(plan([a_node("n", gpu=1)], pods)) == {"next": "n"}


def test_a_pod_that_is_being_stopped_holds_its_place():
    stopping = a_pod("stopping", gpu=1, node="n", phase="Running")

    assert bound(plan([a_node("n", gpu=1)], [stopping, a_pod("next", gpu=1)])) == {}


def test_pods_of_other_schedulers_and_gated_ones_are_left_alone():
    pods = [a_pod("theirs", schedulerName="other"), a_pod("gated", schedulingGates=[{"name": "g"}])]

    made = plan([a_node("n")], pods)

    assert bound(made) == {}
    assert [(pod.metadata.name, reason) for pod, reason, *_ in made.explain] == [("gated", "SchedulingGated")]


def test_sidecars_add_to_the_containers_and_of_init_containers_the_largest_counts():
    pod = a_pod(
        "p",
        containers=[{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        initContainers=[
            {"resources": {"requests": {"cpu": "500m"}}, "restartPolicy": "Always"},
            {"resources": {"requests": {"cpu": "2"}}},
        ],
        overhead={"cpu": "100m"},
    )

    assert requests_of(pod) == {"cpu": 2600, "memory": 1024**3 * 1000}


def test_a_name_for_every_node_leads_nowhere_twice():
    """Pods of one shape fail alike, and are told so at the cost of one."""
    pods = [a_pod(f"p{n}", gpu=9) for n in range(50)]

    assert len(set(waiting(plan([a_node("n", gpu=8)], pods)).values())) == 1


def test_a_thousand_pods_and_a_hundred_nodes_take_well_under_a_second_of_this_process():
    nodes = [a_node(f"n{n:03}", cpu=64, memory="256Gi", gpu=8) for n in range(100)]
    pods = [a_pod(f"p{n:04}", gpu=1, cpu="2", memory="4Gi") for n in range(1000)]

    start = time.process_time()
    made = plan(nodes, pods)

    assert len(made.bind) == 800
    assert time.process_time() - start < 2  # seen: a quarter of it; a loaded machine is slow


def test_affinity_wants_one_pod_that_all_of_its_terms_mean():
    def term(**labels):
        return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}

    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term(a="1"), term(b="1")]}
    wants = a_pod("wants", affinity={"podAffinity": required})
    half, other = a_pod("half", node="n", labels={"a": "1"}), a_pod("other", node="n", labels={"b": "1"})
    both = a_pod("both", node="m", labels={"a": "1", "b": "1"})
    nodes = [a_node("m"), a_node("n")]

    assert bound(plan(nodes, [wants, half, other])) == {}
    assert bound(plan(nodes, [wants, half, other, both])) == {"wants": "m"}


AMOUNTS = st.fixed_dictionaries({"gpu": st.integers(0, 4), "cpu": st.sampled_from(["0", "500m", "1", "3"])})
PODS = st.lists(st.tuples(AMOUNTS, st.integers(0, 3), st.sampled_from(["", "", "n0"])), max_size=25)
NODES = st.lists(st.fixed_dictionaries({"gpu": st.integers(0, 6), "cpu": st.integers(0, 4)}), max_size=5)


@settings(max_examples=150)
@given(PODS, NODES)
def test_no_node_is_ever_promised_more_than_it_has_and_nothing_bound_is_moved(given_pods, given_nodes):
    nodes = [a_node(f"n{number}", **amounts) for number, amounts in enumerate(given_nodes)]
    pods = [
        a_pod(f"p{number}", node=node, priority=priority, **amounts)
        for number, (amounts, priority, node) in enumerate(given_pods)
    ]

    made = plan(nodes, pods)
    again = plan(list(reversed(nodes)), list(reversed(pods)))

    assert bound(made) == bound(again)
    assert not {pod.metadata.name for pod in pods if pod.spec.node_name} & bound(made).keys()
    for node in nodes:
        name = node.metadata.name
        came = [requests_of(pod) for pod, target in made.bind if target == name]
        there = [requests_of(pod) for pod in pods if pod.spec.node_name == name]
        for resource in (GPU, "cpu") if came else ():
            total = sum(amounts.get(resource, 0) for amounts in came + there)
            asked = any(resource in amounts for amounts in came)
            assert not asked or total <= int(node.status.allocatable[resource]) * 1000
