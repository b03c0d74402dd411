"""What admission adds to what a gang asks for: LimitRanges of the namespace, overhead of the RuntimeClass."""

from dataclasses import replace

import msgspec
import pytest
import yaml

from ktrain.api.core import LIMIT_RANGES, RUNTIME_CLASSES, LimitRange, RuntimeClass
from ktrain.api.meta import Key
from ktrain.pipeline.gang import min_resources
from ktrain.pipeline.pod_defaults import LIMIT_RANGES_OF_NAMESPACE

from .test_gang import info_of
from .test_runner import context


def world(*limit_ranges: str, classes: dict[str, str] | None = None):
    """A context with LimitRanges of the job's namespace (the items of each), and RuntimeClasses with their overhead."""
    ranges = [
        msgspec.convert(
            {"metadata": {"name": f"range-{number}"}, "spec": {"limits": yaml.safe_load(items)}}, type=LimitRange
        )
        for number, items in enumerate(limit_ranges)
    ]
    known = {
        Key("", name): msgspec.convert({"metadata": {"name": name}} | yaml.safe_load(spec), type=RuntimeClass)
        for name, spec in (classes or {}).items()
    }

    def find(index, value):
        assert (index, index.resource, value) == (LIMIT_RANGES_OF_NAMESPACE, LIMIT_RANGES, "")
        return ranges[::-1]

    return replace(context(), find=find, lookup=lambda kind, key: known.get(key) if kind is RUNTIME_CLASSES else None)


def asked(ctx, pod: str, count: int = 2) -> dict:
    return min_resources(info_of((count, yaml.safe_load(pod))), ctx)


CONTAINER = "[{type: Container, %s}]"
ONE = "{containers: [{name: c%s}]}"


@pytest.mark.parametrize(
    ("limits", "pod", "expected"),
    [
        ('default: {cpu: "1"}, defaultRequest: {cpu: 500m}', ONE % "", {"cpu": "1"}),
        ('default: {cpu: "1"}', ONE % "", {"cpu": "2"}),
        ('max: {cpu: "3"}, min: {cpu: 100m, memory: 1Gi}', ONE % "", {"cpu": "6", "memory": "2Gi"}),
        ('max: {cpu: "3"}, default: {cpu: "2"}, min: {cpu: 100m}', ONE % "", {"cpu": "4"}),
        ("defaultRequest: {cpu: 500m}", ONE % ", resources: {requests: {cpu: 3}}", {"cpu": "6"}),
        ("defaultRequest: {cpu: 500m}", ONE % ", resources: {limits: {cpu: 3}}", {"cpu": "6"}),
        ("defaultRequest: {cpu: 500m}", ONE % ", resources: {limits: {gpu/a: 1}}", {"cpu": "1"}),
        ("defaultRequest: {cpu: 500m}", ONE % ", resources: {requests: {memory: 1Gi}}", {"cpu": "1", "memory": "2Gi"}),
        ("maxLimitRequestRatio: {cpu: 2}", ONE % "", {}),
        (
            "defaultRequest: {cpu: 500m}",
            "{containers: [{name: a}, {name: b}], initContainers: [{name: i}, {name: s, restartPolicy: Always}]}",
            {"cpu": "3"},
        ),
        (
            "defaultRequest: {cpu: 500m}",
            (
                "{containers: [{name: a}], initContainers: [{name: s, restartPolicy: Always}, {name: i}, "
                "{name: j, resources: {requests: {cpu: 4}}}]}"
            ),
            {"cpu": "9"},
        ),
    ],
)
def test_defaults_of_a_limit_range_are_requested_by_each_container_that_does_not_say(limits, pod, expected):
    assert asked(world(CONTAINER % limits), pod) == expected


@pytest.mark.parametrize("items", ['[{type: Pod, min: {cpu: "1"}, max: {cpu: "2"}}]', "null", "[]"])
def test_limit_ranges_of_pods_and_empty_ones_add_nothing(items):
    assert asked(world(items), ONE % "") == {}


def test_the_first_limit_range_by_name_has_its_say_for_each_resource():
    ctx = world(CONTAINER % "defaultRequest: {cpu: 100m}", CONTAINER % "defaultRequest: {cpu: 900m, memory: 1Gi}")

    assert asked(ctx, ONE % "") == {"cpu": "200m", "memory": "2Gi"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ("runtimeClassName: kata, containers: [{name: c}]", {"cpu": "500m", "memory": "240Mi"}),
        ("runtimeClassName: kata, overhead: {cpu: 100m}, containers: [{name: c}]", {"cpu": "200m"}),
        ("runtimeClassName: plain, containers: [{name: c}]", {}),
        ("runtimeClassName: missing, containers: [{name: c}]", {}),
        ("containers: [{name: c}]", {}),
        (
            (
                "runtimeClassName: kata, containers: [{name: c, resources: {requests: {cpu: 1}}}], "
                "initContainers: [{name: i, resources: {requests: {cpu: 3}}}]"
            ),
            {"cpu": "6500m", "memory": "240Mi"},
        ),
        (
            (
                "runtimeClassName: kata, resources: {requests: {cpu: 2}}, "
                "containers: [{name: c, resources: {requests: {cpu: 9}}}]"
            ),
            {"cpu": "4500m", "memory": "240Mi"},
        ),
    ],
)
def test_the_overhead_of_the_runtime_class_is_added_to_each_pod_unless_the_template_has_its_own(pod, expected):
    classes = {"kata": "{overhead: {podFixed: {cpu: 250m, memory: 120Mi}}}", "plain": "{}"}

    assert asked(world(classes=classes), f"{{{pod}}}") == expected


def test_pods_of_other_replicated_jobs_count_with_their_own_class():
    ctx = world(CONTAINER % "defaultRequest: {cpu: 500m}", classes={"kata": "{overhead: {podFixed: {cpu: 250m}}}"})
    jobs = [
        (1, {"containers": [{"name": "i"}]}),
        (4, {"containers": [{"name": "node"}], "runtimeClassName": "kata"}),
    ]

    assert min_resources(info_of(*jobs), ctx) == {"cpu": "3500m"}
