"""Patches of very many jobs: everybody waits while they are merged, so what is done for each value is bounded."""

from __future__ import annotations

import sys

import msgspec
import pytest

from ktrain.api import trainer as api
from ktrain.api.schema import Schema
from ktrain.api.strategic import strategic_merge
from ktrain.pipeline.journal import Journal
from ktrain.pipeline.patches import apply_patches
from ktrain.pipeline.prepare import Merged, prepare

JOBS = 20


def job(index: int, pod: dict) -> dict:
    return {"name": f"job-{index}", "template": {"spec": {"template": {"spec": pod}}}}


def template(jobs: int = JOBS) -> dict:
    env = [{"name": f"E{index}", "value": "runtime"} for index in range(10)]
    return {"replicatedJobs": [job(index, {"containers": [{"name": "node", "env": env}]}) for index in range(jobs)]}


def patch(number: int, jobs: int = JOBS) -> tuple[str, dict]:
    env = [{"name": f"P{number}-{index}", "value": "patch"} for index in range(10)]
    pod = {"nodeSelector": {f"k{number}": "v"}, "containers": [{"name": "node", "env": env}]}
    return f"patch {number}", {"replicatedJobs": [job(index, pod) for index in range(jobs)]}


def steps(function, *args) -> int:
    """Return how many calls it takes, of Python's and of C's functions: the same in every run."""
    count = 0

    def called(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    function(*args)  # what is compiled once is no part of it
    before = sys.getprofile()
    sys.setprofile(called)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return count


def applied(spec: dict, *patches: tuple[str, dict]) -> int:
    return steps(lambda: apply_patches(spec, patches, Journal()))


def test_a_patch_takes_some_tens_of_steps_for_each_of_its_values():
    values = JOBS * (1 + 1 + 1 + 10 * 2)

    assert applied(template(), patch(0)) < 45 * values


def test_the_jobs_that_no_patch_names_cost_next_to_nothing():
    few, many = (applied(template(jobs), patch(0, jobs=2)) for jobs in (JOBS, 10 * JOBS))

    assert many - few < 12 * 9 * JOBS


def test_twice_the_patches_take_little_more_than_twice_the_steps():
    eight, sixteen = (applied(template(), *map(patch, range(count))) for count in (8, 16))

    assert sixteen < 2.5 * eight


def test_the_items_of_a_list_are_looked_at_a_few_times_however_long_it_is():
    items = {"type": "object", "properties": {"name": {"type": "string"}}}
    by_name = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
    listing = Schema.from_crd({"type": "object", "properties": {"items": {"type": "array", "items": items, **by_name}}})
    long = {"items": [{"name": str(index)} for index in range(1000)]}

    assert steps(strategic_merge, long, {"items": [{"name": "new"}]}, listing) < 5 * 1000


def test_patches_that_pile_up_are_merged_in_a_few_steps_for_each_item():
    values = 8 * JOBS * 10

    assert applied(template(), *map(patch, range(8))) < 45 * values


@pytest.mark.parametrize(("count", "is_large"), [(1, False), (15, True)])
def test_what_one_phase_merged_the_next_one_of_the_pass_reads(count, is_large):
    """Without a change in what comes of it, and each with a template of its own."""
    patches = [
        {"manager": author, "trainingRuntimeSpec": {"template": {"spec": spec}}}
        for author, spec in map(patch, range(count))
    ]
    body = {"metadata": {"name": "j"}, "spec": {"runtimePatches": patches}}
    train_job = msgspec.json.decode(msgspec.json.encode(body), type=api.TrainJob)
    runtime = msgspec.json.decode(msgspec.json.encode({"template": {"spec": template()}}), type=api.RuntimeSpec)
    merged = Merged()
    first = steps(prepare, train_job, runtime)
    infos = [prepare(train_job, runtime, merged) for _ in range(2)]
    again = steps(prepare, train_job, runtime, merged)

    assert infos[0].template == infos[1].template
    assert infos[0].template is not infos[1].template
    assert infos[0].journal.provenance == infos[1].journal.provenance
    assert infos[0].journal.provenance
    assert (again < first / 5) is is_large
