"""Refusals that depend on feature gates, and those of startup rules."""

from __future__ import annotations

import copy

import pytest

from ktrain.controllers.jobset import Gates
from ktrain.controllers.jobset.admission import refusals
from ktrain.controllers.jobset.go_order import go_order

ELASTIC = Gates(elastic_jobset=True)
ALL = Gates(restart_job=True, elastic_jobset=True, in_place_restart=True)


def replicated_job(name="a", *, mode="Indexed", parallelism=2, completions=2, replicas=1, **job):
    pod = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none", "resources": {}}]}}
    spec = {"parallelism": parallelism, "completions": completions, "completionMode": mode, "template": pod, **job}
    return {"name": name, "groupName": "default", "replicas": replicas, "template": {"metadata": {}, "spec": spec}}


def jobset(*replicated_jobs, **spec):
    return {
        "metadata": {"name": "js", "namespace": "ns"},
        "spec": {"replicatedJobs": list(replicated_jobs or [replicated_job()]), **spec},
    }


def resized(parallelism, completions, *, status=None, **template):
    """What is wrong with an update of the size."""
    old = {**jobset(replicated_job(**template)), "status": status or {}}
    new = jobset(replicated_job(parallelism=parallelism, completions=completions, **template))
    return [str(cause).partition(": field is")[0] for cause in refusals(new, old, ELASTIC)]


def test_the_size_of_indexed_jobs_may_change():
    assert resized(4, 4) == []
    assert refusals(jobset(replicated_job(parallelism=4, completions=4)), jobset(), Gates())


PATH = "spec.replicatedJobs[0].template.spec"
UNEQUAL = f"{PATH}.completions: Invalid value: 2: completions must be equal to parallelism for Elastic Indexed Jobs"


@pytest.mark.parametrize(
    ("parallelism", "completions", "errors"),
    [
        (3, 2, [UNEQUAL]),
        (
            0,
            0,
            [
                f"{PATH}.parallelism: Invalid value: 0: parallelism must be >= 1",
                f"{PATH}.completions: Invalid value: 0: completions must be >= 1",
            ],
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused_with_their_path(parallelism, completions, errors):
    assert resized(parallelism, completions) == errors


def test_after_the_end_the_size_is_fixed():
    over = {"conditions": [{"type": "Completed", "status": "True"}]}

    why = "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)"
    assert resized(4, 4, status=over) == [f"{PATH}: Forbidden: {why}"]


def test_the_size_of_other_jobs_and_the_number_of_jobs_stay_frozen():
    assert resized(4, 4, mode="NonIndexed")
    old, new = jobset(), jobset(replicated_job(replicas=2, parallelism=4, completions=4))
    assert [cause.field for cause in refusals(new, old, ELASTIC)] == ["spec.replicatedJobs"]


def test_single_restarts_need_their_gate_and_few_replicas():
    policy = {"rules": [{"name": "one", "action": "RestartJob"}]}

    def errors(replicas, gates):
        found = refusals(jobset(replicated_job(replicas=replicas), failurePolicy=policy), None, gates)
        return [str(cause) for cause in found]

    assert errors(1024, ALL) == []
    assert "feature gate is disabled" in errors(1, Gates())[0]
    assert errors(1025, ALL) == [
        (
            "<nil>: Internal error: JobSet cannot have a failure policy rule with RestartJob or"
            " RestartJobAndIgnoreMaxRestarts action and a replicated job with replicas > 1024"
        )
    ]


def test_restarts_in_place_need_jobs_that_never_fail():
    policy = {"restartStrategy": "InPlaceRestart"}
    wrong = jobset(replicated_job(backoffLimit=3, completions=None), failurePolicy=policy)
    right = jobset(replicated_job(backoffLimit=2147483647, podReplacementPolicy="Failed"), failurePolicy=policy)

    assert refusals(right, None, ALL) == []
    when = "when in-place restart is enabled"
    backoff, replacement, size = (str(cause) for cause in refusals(wrong, None, ALL))
    assert backoff == (
        f"{PATH}.backoffLimit: Invalid value: 3: replicatedJob a: must be set to 2147483647 (MaxInt32) {when}"
    )
    assert replacement == (
        f"{PATH}.podReplacementPolicy: Invalid value: null: replicatedJob a: must be set to Failed {when}"
    )
    assert size == (
        f"{PATH}.completions: Invalid value: null: replicatedJob a: completions and parallelism must be set and equal"
        f" to each other {when}"
    )


RULES = "spec.startupPolicy.rules"


@pytest.mark.parametrize(
    ("groups", "order", "errors"),
    [
        ([["a"], ["b"]], "InOrder", []),
        ([["b"], ["a"]], "InOrder", []),
        ([["a", "b", "c"]], "InOrder", []),
        ([], "AnyOrder", []),
        (
            [["a"]],
            "InOrder",
            [f"{RULES}: Required value: every replicatedJob but the last must be in a rule, and b is"],
        ),
        ([["a"], ["a", "b"]], "InOrder", [f'{RULES}[1].targetReplicatedJobs[0]: Duplicate value: "a"']),
        ([["a", "b", "x"]], "InOrder", [f'{RULES}[0].targetReplicatedJobs[2]: Invalid value: "x": there is no such']),
        ([["a", "b"]], "AnyOrder", [f"{RULES}: Forbidden: rules are an order"]),
    ],
)
def test_every_replicated_job_but_the_last_is_in_one_startup_rule(groups, order, errors):
    policy = {"startupPolicyOrder": order, "rules": [{"targetReplicatedJobs": group} for group in groups]}
    found = refusals(jobset(*map(replicated_job, "abc"), startupPolicy=policy), None, Gates())

    assert len(found) == len(errors)
    for cause, error in zip(found, errors, strict=True):
        assert str(cause).startswith(error)


def test_values_are_printed_as_go_writes_them():
    given = replicated_job()
    given["template"]["spec"]["template"]["metadata"] = {"labels": {"name": "x", "a": "y"}}
    before = copy.deepcopy(given)

    printed = go_order(dict(sorted(given.items())))

    assert given == before
    assert list(printed) == ["name", "groupName", "template", "replicas"]
    assert list(printed["template"]["spec"]) == ["parallelism", "completions", "template", "completionMode"]
    pod = printed["template"]["spec"]["template"]
    assert list(pod["metadata"]["labels"]) == ["a", "name"]
    assert list(pod["spec"]["containers"][0]) == ["name", "image", "resources"]
