"""What a whole job asks for: the sums, and the rule for one pod."""

from fractions import Fraction

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ktrain.api import quantity
from ktrain.api import trainer as api
from ktrain.pipeline import prepare
from ktrain.pipeline.gang import min_member, min_resources, pod_requests
from ktrain.pipeline.pod_defaults import PodDefaults

from .test_runner import context

NO_DEFAULTS = PodDefaults.of("", context())
SIDECAR = {"restartPolicy": "Always"}


def asking(amounts, **more):
    return {"name": "c", "resources": {"requests": amounts}, **more}


def info_of(*jobs):
    """`jobs` are the parallelism and the pod spec of each."""
    replicated = [
        {"name": f"j{i}", "template": {"spec": {"parallelism": count, "template": {"spec": pod}}}}
        for i, (count, pod) in enumerate(jobs)
    ]
    spec = {"template": {"spec": {"replicatedJobs": replicated}}}
    job = {"metadata": {"name": "tj"}, "spec": {"runtimeRef": {"name": "rt"}}}
    return prepare(
        msgspec.convert(job, type=api.TrainJob), msgspec.json.decode(msgspec.json.encode(spec), type=api.RuntimeSpec)
    )


@pytest.mark.parametrize(
    ("jobs", "members", "resources"),
    [
        ([(1, "{cpu: 1, memory: 2Gi}"), (3, "{cpu: 4, memory: 4Gi}")], 4, {"cpu": "13", "memory": "14Gi"}),
        ([(1, "{cpu: 1, memory: 4Gi}"), (100, "{cpu: 2, memory: 8Gi}")], 101, {"cpu": "201", "memory": "804Gi"}),
        ([(1, "{cpu: 300m, memory: 1Gi}"), (4, "{cpu: 500m, memory: 0.5Gi}")], 5, {"cpu": "2300m", "memory": "3Gi"}),
        ([(2, "{cpu: 500m, memory: 1Gi}"), (1, "{cpu: 250m, memory: 512Mi}")], 3, {"cpu": "1250m", "memory": "2560Mi"}),
        ([(3, "{cpu: 1500m, memory: 1Gi}")], 3, {"cpu": "4500m", "memory": "3Gi"}),
        ([(2, "{}")], 2, {}),
    ],
)
def test_a_gang_is_all_pods_and_all_that_they_request(jobs, members, resources):
    info = info_of(*((count, {"containers": [asking(yaml.safe_load(text))]}) for count, text in jobs))

    assert (min_member(info), min_resources(info, context())) == (members, resources)


def test_pods_of_which_there_are_none_still_name_their_resources():
    info = info_of((1, {"containers": [{"name": "c"}]}), (1, {"containers": [asking({"cpu": 1, "nvidia.com/gpu": 1})]}))
    info.pod_sets[1].set_count(0)

    assert (min_member(info), min_resources(info, context())) == (1, {"cpu": "0", "nvidia.com/gpu": "0"})


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (
            {
                "containers": [
                    {"resources": {"requests": {"cpu": 1}, "limits": {"memory": "2Gi", "nvidia.com/gpu": 1}}}
                ],
                "initContainers": [asking({"cpu": 4, "memory": "1Gi"}), asking({"cpu": "500m"}, **SIDECAR)],
                "overhead": {"cpu": "250m"},
            },
            {"cpu": "4.25", "memory": "1Gi"},
        ),
        (
            {
                "containers": [asking({"cpu": 1})],
                "initContainers": [asking({"cpu": "500m"}, **SIDECAR), asking({"cpu": 4, "memory": "1Gi"})],
                "overhead": {"cpu": "250m"},
            },
            {"cpu": "4.75", "memory": "1Gi"},
        ),
        ({"containers": [asking({"cpu": 1}), asking({"cpu": 2})]}, {"cpu": "3"}),
        (
            {"containers": [asking({"cpu": 1})], "initContainers": [asking({"cpu": 5}), asking({"cpu": 3})]},
            {"cpu": "5"},
        ),
        (
            {
                "containers": [asking({"cpu": 9, "memory": "1Gi", "nvidia.com/gpu": 2})],
                "resources": {"requests": {"cpu": 2, "nvidia.com/gpu": 7, "hugepages-2Mi": "4Mi"}},
            },
            {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"},
        ),
        ({"containers": [{"resources": None}], "initContainers": None, "overhead": None}, {}),
    ],
)
def test_a_pod_asks_for_what_runs_together_or_for_an_init_container_that_needs_more(pod, expected):
    found = {name: amount.value for name, amount in pod_requests(pod, NO_DEFAULTS).items()}

    assert found == {name: quantity.parse(text) for name, text in expected.items()}


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "a/gpu"]), st.integers(0, 9000).map(lambda n: f"{n}m"))
CONTAINERS = st.lists(AMOUNTS.map(asking), max_size=4)
INITS = st.lists(st.tuples(AMOUNTS, st.booleans()).map(lambda c: asking(c[0], **(SIDECAR if c[1] else {}))), max_size=5)


def by_steps(containers, inits):
    """What runs at each moment of a pod's start, resource by resource: an independent way to say it."""
    beside, moments = [], []
    for init in inits:
        moments.append([*beside, init])
        if init.get("restartPolicy"):
            beside.append(init)
    moments.append([*beside, *containers])
    names = {name for moment in moments for one in moment for name in one["resources"]["requests"]}
    return {
        name: max(
            sum((quantity.parse(c["resources"]["requests"].get(name, "0")) for c in moment), Fraction())
            for moment in moments
        )
        for name in names
    }


@given(CONTAINERS, INITS)
def test_a_pod_asks_for_the_most_that_ever_runs_at_once(containers, inits):
    found = pod_requests({"containers": containers, "initContainers": inits}, NO_DEFAULTS)

    assert {name: amount.value for name, amount in found.items()} == by_steps(containers, inits)


@given(st.lists(st.tuples(st.integers(1, 9), CONTAINERS), max_size=4))
def test_the_sum_does_not_depend_on_the_order_of_jobs(jobs):
    def sums(order):
        written = min_resources(
            info_of(*((count, {"containers": containers}) for count, containers in order)), context()
        )
        return {name: quantity.parse(text) for name, text in written.items()}

    assert sums(jobs) == sums(jobs[::-1])
