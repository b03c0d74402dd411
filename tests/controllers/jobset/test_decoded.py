"""What upstream's webhook makes of templates by reading and writing them, and how it prints them."""

from __future__ import annotations

import copy

import pytest

from ktrain.controllers.jobset.admission import default_jobset
from ktrain.controllers.jobset.decoded import CLAIM, JOB_TEMPLATE, decoded
from ktrain.controllers.jobset.go_order import printed_claim, printed_jobs

from .documents import document, replicated_job


def pod(**spec):
    """A Job template with this pod, as it is when decoded."""
    inner = {"containers": [], **spec}
    return {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": inner}}}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"containers": [{"name": "a"}]}, {"containers": [{"name": "a", "resources": {}}]}),
        ({"initContainers": [{"image": "i"}]}, {"initContainers": [{"name": "", "image": "i", "resources": {}}]}),
        ({"overhead": {"cpu": "0.5", "memory": "1024Mi"}}, {"overhead": {"cpu": "500m", "memory": "1Gi"}}),
        ({"overhead": {"cpu": 1, "memory": "much"}}, {"overhead": {"cpu": "1", "memory": "much"}}),
        (
            {"volumes": [{"emptyDir": {"sizeLimit": "0.5Gi"}}]},
            {"volumes": [{"name": "", "emptyDir": {"sizeLimit": "512Mi"}}]},
        ),
        ({"tolerations": [], "hostNetwork": False}, {"tolerations": [], "hostNetwork": False}),
        ({"containers": "text", "volumes": [1]}, {"containers": "text", "volumes": [1]}),
    ],
)
def test_amounts_are_canonical_and_what_go_always_writes_is_there(given, written):
    assert decoded(pod(**given), JOB_TEMPLATE) == pod(**written)


def test_a_template_that_was_left_out_is_one_without_containers():
    assert decoded({}, JOB_TEMPLATE) == pod(containers=None)


def test_rules_about_pods_are_written_with_their_zero_values():
    rules = [{"onExitCodes": {"values": [1]}, "onPodConditions": [{"type": "T"}]}]

    written = decoded({"spec": {"podFailurePolicy": {"rules": rules}}}, JOB_TEMPLATE)

    assert written["spec"]["podFailurePolicy"]["rules"] == [
        {
            "action": "",
            "onExitCodes": {"operator": "", "values": [1]},
            "onPodConditions": [{"type": "T", "status": ""}],
        }
    ]


def test_a_claim_has_a_status_and_resources():
    assert decoded({"metadata": {"name": "data"}}, CLAIM) == {
        "metadata": {"name": "data"},
        "spec": {"resources": {}},
        "status": {},
    }


def test_a_new_jobsets_templates_are_decoded_and_the_users_object_is_not_changed():
    given = document(
        replicated_job(pod={"containers": [{"name": "main", "resources": {"limits": {"cpu": "2000m"}}}]}),
        volumeClaimPolicies=[{"templates": [{"metadata": {"name": "data"}}]}],
    )
    before = copy.deepcopy(given)

    spec = default_jobset(given)["spec"]

    container = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "2"}}
    assert spec["volumeClaimPolicies"][0]["templates"][0]["status"] == {}
    assert given == before


@pytest.mark.parametrize("nothing", [None, []])
def test_no_replicated_jobs_are_printed_as_they_were_given(nothing):
    assert printed_jobs(nothing) == nothing


def test_refusals_print_what_go_writes_and_nothing_empty():
    rj = replicated_job(replicas=0, dependsOn=[], pod={"tolerations": [], "hostNetwork": False, "containers": []})
    rj["template"]["spec"]["template"]["metadata"]["labels"] = {}

    (printed,) = printed_jobs([rj])

    assert list(printed) == ["name", "groupName", "template"]
    assert printed["template"]["spec"]["template"] == {
        "metadata": {},
        "spec": {"containers": [], "restartPolicy": "OnFailure"},
    }
    assert printed_claim({"accessModes": [], "resources": {}}) == {"resources": {}}
