"""Defaults and refusals, in the words that clients see."""

from __future__ import annotations

import copy

import pytest

from ktrain.controllers.jobset.admission import (
    default_jobset,
    invalid_jobset,
    refusals_on_create,
)

from .documents import document, refused, replicated_job


def test_a_minimal_jobset_gets_its_defaults_and_nothing_else():
    bare = {"name": "a", "template": {"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}}}
    given = document(bare)
    before = copy.deepcopy(given)

    spec = default_jobset(given)["spec"]

    assert given == before
    assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert spec["successPolicy"] == {"operator": "All"}
    assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    job = spec["replicatedJobs"][0]["template"]["spec"]
    assert (job["completionMode"], job["template"]["spec"]["restartPolicy"]) == ("Indexed", "OnFailure")
    assert set(spec) == {"network", "successPolicy", "startupPolicy", "replicatedJobs"}


def test_what_the_user_chose_is_kept():
    chosen = replicated_job(job={"completionMode": "NonIndexed"}, pod={"restartPolicy": "Never"})
    network = {"enableDNSHostnames": False, "publishNotReadyAddresses": False, "subdomain": "net"}
    success = {"operator": "Any"}

    spec = default_jobset(document(chosen, network=network, successPolicy=success))["spec"]

    assert spec["replicatedJobs"] == [chosen]
    assert (spec["network"], spec["successPolicy"]) == (network, success)


def test_rules_are_named_by_their_place_and_claims_go_with_the_jobset():
    rules = [{"action": "FailJobSet"}, {"name": "mine", "action": "FailJobSet"}, {"action": "RestartJobSet"}]
    policies = [{"templates": []}, {"templates": [], "retentionPolicy": {"whenDeleted": "Retain"}}]

    spec = default_jobset(document(failurePolicy={"rules": rules}, volumeClaimPolicies=policies))["spec"]

    assert [rule["name"] for rule in spec["failurePolicy"]["rules"]] == [
        "failurePolicyRule0",
        "mine",
        "failurePolicyRule2",
    ]
    assert [p["retentionPolicy"]["whenDeleted"] for p in spec["volumeClaimPolicies"]] == ["Delete", "Retain"]


def test_defaulting_twice_changes_nothing():
    once = default_jobset(document({"name": "a"}, failurePolicy={"rules": [{"action": "FailJobSet"}]}))

    assert default_jobset(once) == once


def test_missing_required_values_are_written_as_zero_for_the_schema_to_object_to():
    rj = {"name": "b", "dependsOn": [{"name": "a"}]}
    policies = {"failurePolicy": {"rules": [{}]}, "successPolicy": {}, "startupPolicy": {}, "coordinator": {}}

    spec = default_jobset(document(rj, **policies))["spec"]

    assert spec["replicatedJobs"][0]["dependsOn"] == [{"name": "a", "status": ""}]
    assert spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"] is None
    assert spec["failurePolicy"]["rules"][0]["action"] == ""
    assert spec["successPolicy"]["operator"] == ""
    assert spec["startupPolicy"]["startupPolicyOrder"] == ""
    assert spec["coordinator"]["replicatedJob"] == ""


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "text",
        {"replicatedJobs": "text"},
        {"replicatedJobs": ["text", {"template": "text"}, {"template": {"spec": []}}]},
        {"replicatedJobs": [{"dependsOn": "text"}], "network": [], "failurePolicy": {"rules": [1]}, "coordinator": 3},
        {"volumeClaimPolicies": {}, "successPolicy": "All", "failurePolicy": [], "startupPolicy": None},
    ],
)
def test_nonsense_passes_through_for_the_schema_to_refuse(spec):
    default_jobset({"spec": spec})


def test_nonsense_in_any_place_passes_through(mistyped):
    whole = document(
        replicated_job(dependsOn=[{"name": "b", "status": "Ready"}]),
        network={"enableDNSHostnames": True},
        successPolicy={"operator": "All"},
        startupPolicy={"startupPolicyOrder": "InOrder"},
        failurePolicy={"rules": [{"name": "r", "action": "FailJobSet"}]},
        coordinator={"replicatedJob": "a"},
        volumeClaimPolicies=[{"templates": [{}], "retentionPolicy": {"whenDeleted": "Retain"}}],
    )
    for body in mistyped(whole):
        before = copy.deepcopy(body)
        default_jobset(body)

        assert body == before


def test_a_good_jobset_is_welcome():
    assert refused(replicated_job("a"), replicated_job("b", dependsOn=[{"name": "a", "status": "Ready"}])) == []


@pytest.mark.parametrize(
    ("name", "rj", "noun"),
    [
        ("x" * 51, replicated_job("a"), None),
        ("x" * 52, replicated_job("a"), "pod"),
        ("x" * 59, replicated_job("a", job={"completions": None}), None),
        ("x" * 60, replicated_job("a", job={"completions": None}), "job"),
        ("x" * 59, replicated_job("a", replicas=11, job={"completionMode": "NonIndexed"}), "job"),
    ],
)
def test_generated_names_must_fit(name, rj, noun):
    shown = f"{name}-a-{rj['replicas'] - 1}"
    text = f"JobSet name is too long, {noun} names generated for this JobSet will exceed 63 characters"

    expected = [f'spec.replicatedJobs[0].name: Invalid value: "{shown}": {text}'] if noun else []
    assert [str(cause) for cause in refusals_on_create(document(rj, name=name))] == expected


def test_a_generated_name_counts_with_its_random_end():
    generated = document()
    generated["metadata"] = {"generateName": "x" * 47}

    (cause,) = refusals_on_create(generated)

    assert "pod names generated" in str(cause)


def test_names_must_be_dns_labels():
    causes = refusals_on_create(document(replicated_job("a.b")))

    broken = 'spec.replicatedJobs[0].name: Invalid value: "js-a.b-0": a DNS-1035 label must consist of'
    assert [str(cause).startswith(broken) for cause in causes] == [True, True], "the Job's name and the pod's"
    assert invalid_jobset("js", causes).message.count("js-a.b-0") == 1, "and one sentence"


@pytest.mark.parametrize("parents", [["later"], ["b"], ["ghost"]])
def test_parents_must_be_listed_earlier(parents):
    depends_on = [{"name": name, "status": "Ready"} for name in parents]

    assert refused(replicated_job("a"), replicated_job("b", dependsOn=depends_on), replicated_job("later")) == [
        f"<nil>: Internal error: replicatedJob: b cannot depend on replicatedJob: {parents[0]}"
    ]


def test_the_first_has_no_dependencies_not_even_none():
    assert refused(replicated_job("a", dependsOn=[])) == [
        "<nil>: Internal error: DependsOn can't be set for the first ReplicatedJob"
    ]


def test_the_number_of_pods_must_fit_an_int32():
    product = "the product of replicas and parallelism must not exceed 2147483647 for replicatedJob 'a'"

    assert refused(replicated_job("a", replicas=2, job={"parallelism": 2**30})) == [f"<nil>: Internal error: {product}"]


@pytest.mark.parametrize(
    ("manager", "text"),
    [
        ("nobody", 'spec.managedBy: Invalid value: "nobody": must be a domain-prefixed path (such as "acme.io/foo")'),
        ("example.com/" + "x" * 60, "spec.managedBy: Too long: may not be more than 63 bytes"),
        ("", "spec.managedBy: Required value"),
    ],
)
def test_the_manager_is_a_domain_path(manager, text):
    assert refused(managedBy=manager) == [text]


@pytest.mark.parametrize(
    ("policy", "errors"),
    [
        ({"rules": [{"name": "r", "action": "FailJobSet", "targetReplicatedJobs": ["a"]}]}, []),
        (
            {"rules": [{"name": "r,", "action": "FailJobSet"}]},
            ["invalid failure policy rule name 'r,', a failure policy rule name must start with"],
        ),
        ({"rules": [{"name": "r" * 129, "action": "FailJobSet"}]}, ["invalid failure policy rule name of length 129"]),
        (
            {"rules": [{"name": "r", "action": "FailJobSet"}] * 2},
            ["rule names are not unique, rules with indices [0 1] all have the same name 'r'"],
        ),
        (
            {"rules": [{"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["Bored"]}]},
            ["invalid job failure reason 'Bored' in failure policy is not a recognized job failure reason"],
        ),
        (
            {"rules": [{"name": "!", "action": "RestartJob", "targetReplicatedJobs": ["ghost"]}]},
            ["RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed"],
        ),
        ({"restartStrategy": "InPlaceRestart"}, ["InPlaceRestart restart strategy cannot be set when"]),
    ],
)
def test_failure_policies(policy, errors):
    found = refused(failurePolicy=policy)

    assert len(found) == len(errors)
    assert all(text.startswith(f"<nil>: Internal error: {e}") for text, e in zip(found, errors, strict=True))


@pytest.mark.parametrize(
    ("coordinator", "error"),
    [
        ({"replicatedJob": "a", "jobIndex": 1, "podIndex": 0}, None),
        ({"replicatedJob": "a", "jobIndex": 2}, "coordinator job index 2 is invalid for replicatedJob a"),
        ({"replicatedJob": "a", "podIndex": 1}, "coordinator pod index 1 is invalid for replicatedJob a job index 0"),
        ({"replicatedJob": "n"}, "job for coordinator pod must be indexed completion mode, and completions number"),
    ],
)
def test_the_coordinator_must_exist(coordinator, error):
    found = refused(
        replicated_job("a", replicas=2), replicated_job("n", job={"completions": None}), coordinator=coordinator
    )

    assert [error in text for text in found] == ([True] if error else [])


def test_the_coordinators_address_must_fit_a_label():
    found = refused(coordinator={"replicatedJob": "a"}, network={"subdomain": "n" * 60})

    assert len(found) == 1
    assert 'spec will lead to invalid label value "js-a-0-0.nnn' in found[0]
    assert found[0].endswith("must be no more than 63 bytes")


def test_everything_is_said_at_once_in_one_answer():
    causes = refusals_on_create(
        document(
            replicated_job("a", dependsOn=[{"name": "z", "status": "Ready"}]),
            managedBy="nobody",
            coordinator={"replicatedJob": "ghost"},
            successPolicy={"operator": "All", "targetReplicatedJobs": ["ghost"]},
        )
    )

    status = invalid_jobset("js", causes)

    assert (status.code, status.reason, len(status.details.causes)) == (422, "Invalid", 5)
    assert status.message.startswith(
        'JobSet.jobset.x-k8s.io "js" is invalid: [<nil>: Internal'
        " error: DependsOn can't be set for the first ReplicatedJob, spec.managedBy: Invalid value"
    )


def claims(*names, retain=False):
    """One claim policy with these templates."""
    retention = {"whenDeleted": "Retain" if retain else "Delete"}
    return [{"templates": [{"metadata": {"name": n}, "spec": {"x": 1}} for n in names], "retentionPolicy": retention}]


def mounting(*names):
    """A replicated job whose container mounts these volumes."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return replicated_job(pod={"containers": [{"name": "main", "volumeMounts": mounts}]})


@pytest.mark.parametrize(
    ("rj", "policies", "errors"),
    [
        (mounting("data"), claims("data"), []),
        (mounting("data"), claims("data") + claims("data"), ["names must be unique for VolumeClaimPolicies template"]),
        (mounting("x" * 61), claims("x" * 61), ["VolumeClaimPolicies template name is too long"]),
        (mounting(), claims("data"), ["replicatedJob containers don't have a matching volumeMount: data from"]),
        (
            replicated_job(pod={**mounting("d")["template"]["spec"]["template"]["spec"], "volumes": [{"name": "d"}]}),
            claims("d"),
            ["volume name conflicts with VolumeClaimPolicy template name: d"],
        ),
    ],
)
def test_claim_templates(rj, policies, errors):
    found = refused(rj, volumeClaimPolicies=policies)

    assert len(found) == len(errors)
    assert all(error in text for text, error in zip(found, errors, strict=True))


def test_what_is_wrong_with_a_claim_is_said_of_the_place_that_could_be_changed():
    rj = replicated_job("a", pod={"volumes": [{"name": "x"}, {"name": "A"}]})

    fields = [cause.field for cause in refusals_on_create(document(rj, volumeClaimPolicies=claims("A")))]

    assert fields == [
        "spec.volumeClaimPolicies[0].template[0].name",
        "spec.replicatedJobs[0].template.spec.template.spec.volumes[1].name",
        "spec.replicatedJobs",
    ]


@pytest.mark.parametrize(
    ("existing", "retain", "errors"),
    [
        ({"x": 1}, True, []),
        ({"x": 2}, True, ["spec does not match existing PVC data-js in namespace ns"]),
        ({"x": 1}, False, ["retentionPolicy must be retain when PVC exists"]),
    ],
)
def test_an_existing_claim_is_reused_only_as_it_is_and_only_to_keep(existing, retain, errors):
    claim = {"metadata": {"name": "data-js", "namespace": "ns"}, "spec": existing}
    jobset = document(mounting("data"), volumeClaimPolicies=claims("data", retain=retain))

    found = refusals_on_create(
        jobset, lambda namespace, name: claim if (namespace, name) == ("ns", "data-js") else None
    )

    assert [error in str(cause) for cause, error in zip(found, errors, strict=True)] == [True] * len(errors)
