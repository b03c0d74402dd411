"""The objects that a JobSet owns, as they are posted."""

from __future__ import annotations

import hashlib

import pytest

from ktrain.controllers.jobset.children import JobBuilder, build_service, slots
from ktrain.controllers.jobset.volumes import build_claims

PREFIX = "jobset.sigs.k8s.io/"


def build(jobset, short, *, restarts=0):
    """The Job of one slot."""
    builder = JobBuilder(jobset, restarts)
    wanted = f"js-{short}"
    return next(
        builder.build(slot) for rj in jobset.spec.replicated_jobs for slot in slots(jobset, rj) if slot.name == wanted
    )


def keys(bag):
    return {key.removeprefix(PREFIX): value for key, value in bag.items() if key.startswith(PREFIX)}


def test_every_key_is_label_and_annotation_of_job_and_pod(jobset):
    world = jobset("a", {"name": "b", "replicas": 3, "groupName": "rest"}, {"name": "c", "groupName": "rest"})

    job = build(world, "c-0", restarts=4)

    expected = {
        "jobset-name": "js",
        "jobset-uid": "uid-js",
        "replicatedjob-name": "c",
        "replicatedjob-replicas": "1",
        "global-replicas": "5",
        "job-index": "0",
        "job-global-index": "4",
        "group-name": "rest",
        "group-replicas": "4",
        "job-group-index": "3",
        "job-key": hashlib.sha1(b"ns/js-c-0").hexdigest(),
        "restart-attempt": "4",
    }
    for metadata in (job["metadata"], job["spec"]["template"]["metadata"]):
        assert keys(metadata["labels"]) == expected
        assert keys(metadata["annotations"]) == expected


def test_users_labels_are_kept_and_lose_against_the_controllers(jobset):
    metadata = {"labels": {"mine": "1", f"{PREFIX}job-index": "9"}, "finalizers": ["x/y"]}
    template = {"metadata": metadata, "spec": {"template": {"metadata": {"labels": {"pod": "1"}}, "spec": {}}}}

    job = build(jobset({"name": "a", "template": template}), "a-0")

    assert job["metadata"]["labels"]["mine"] == "1"
    assert job["metadata"]["labels"][f"{PREFIX}job-index"] == "0"
    assert "finalizers" not in job["metadata"]
    assert job["spec"]["template"]["metadata"]["labels"]["pod"] == "1"


def test_suspend_is_written_out_over_the_templates(jobset):
    template = {"spec": {"suspend": True, "template": {"spec": {}}}}

    assert build(jobset({"name": "a", "template": template}), "a-0")["spec"]["suspend"] is False
    assert build(jobset("a", suspend=True), "a-0")["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ({"enableDNSHostnames": True}, "js"),
        ({"enableDNSHostnames": True, "subdomain": "net"}, "net"),
        ({"enableDNSHostnames": False, "subdomain": "net"}, None),
        (None, None),
    ],
)
def test_pods_get_the_subdomain_if_they_find_each_other_by_name(jobset, network, expected):
    assert build(jobset("a", network=network), "a-0")["spec"]["template"]["spec"].get("subdomain") == expected


def test_the_coordinator_is_an_address_under_the_subdomain(jobset):
    coordinator = {"replicatedJob": "b", "jobIndex": 1, "podIndex": 2}

    job = build(jobset("a", coordinator=coordinator), "a-0")

    assert job["metadata"]["labels"][f"{PREFIX}coordinator"] == "js-b-1-2.js"


def test_the_template_passes_through_with_fields_nobody_knows(jobset):
    template = {"spec": {"future": {"x": 1}, "template": {"spec": {"alsoNew": [2]}}}}

    spec = build(jobset({"name": "a", "template": template}), "a-0")["spec"]

    assert (spec["future"], spec["template"]["spec"]["alsoNew"]) == ({"x": 1}, [2])


def test_jobs_are_owned_and_nothing_is_shared_between_them(jobset):
    world = jobset({"name": "a", "replicas": 2})
    builder = JobBuilder(world, 0)
    first, second = (builder.build(slot) for slot in slots(world, world.spec.replicated_jobs[0]))

    first["spec"]["template"]["spec"]["containers"].clear()

    assert second["spec"]["template"]["spec"]["containers"] != []
    assert second["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": "js",
            "uid": "uid-js",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"


def exclusive(job):
    """The placement annotations of Job and pod template, which must agree, and the pod's node selector."""
    pod = job["spec"]["template"]
    found = [{k: m["annotations"].get(k) for k in (TOPOLOGY, STRATEGY)} for m in (job["metadata"], pod["metadata"])]
    assert found[0] == found[1]
    assert TOPOLOGY not in job["metadata"]["labels"]
    return found[0][TOPOLOGY], found[0][STRATEGY], pod["spec"].get("nodeSelector")


def test_exclusive_placement_comes_from_the_jobset_and_is_overridden_by_the_job_template(jobset):
    zone = {"metadata": {"annotations": {TOPOLOGY: "zone", STRATEGY: "true"}}, "spec": {"template": {"spec": {}}}}
    world = jobset("a", {"name": "b", "template": zone}, annotations={TOPOLOGY: "rack"})

    b = build(world, "b-0")

    assert exclusive(build(world, "a-0")) == ("rack", None, None)
    assert exclusive(b) == ("zone", "true", {"alpha.jobset.sigs.k8s.io/namespaced-job": "ns_js-b-0"})
    assert b["spec"]["template"]["spec"]["tolerations"] == [
        {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_the_selector_strategy_does_nothing_without_a_topology_beside_it(jobset):
    assert exclusive(build(jobset("a", annotations={STRATEGY: "true"}), "a-0")) == (None, None, None)


def test_the_service_is_headless_and_selects_every_pod_of_the_jobset(jobset):
    service = build_service(jobset("a", network={"enableDNSHostnames": True, "publishNotReadyAddresses": False}))

    assert service["metadata"]["name"] == "js"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": False,
        "selector": {f"{PREFIX}jobset-name": "js"},
    }


def test_not_ready_addresses_are_published_unless_the_user_objects(jobset):
    assert build_service(jobset("a"))["spec"]["publishNotReadyAddresses"] is True


CLAIM = {"metadata": {"name": "data", "labels": {"l": "1"}, "annotations": {"n": "1"}}, "spec": {"x": 1}}


@pytest.mark.parametrize(
    ("retention", "owned"), [({"whenDeleted": "Delete"}, True), ({"whenDeleted": "Retain"}, False), (None, False)]
)
def test_a_claim_goes_with_the_jobset_only_if_that_is_said(jobset, retention, owned):
    policy = {"templates": [CLAIM], "retentionPolicy": retention}

    (claim,) = build_claims(jobset("a", volumeClaimPolicies=[policy]))

    assert claim["metadata"]["name"] == "data-js"
    assert claim["metadata"]["labels"] == {"l": "1", f"{PREFIX}jobset-name": "js"}
    assert claim["metadata"]["annotations"] == {"n": "1"}
    assert claim["spec"] == {"x": 1}
    assert ("ownerReferences" in claim["metadata"]) is owned


def test_a_claim_becomes_a_volume_where_a_container_or_init_container_mounts_it(jobset):
    mounts = {"name": "c", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}

    def replicated_job(name, **pod):
        return {"name": name, "template": {"spec": {"template": {"spec": pod}}}}

    world = jobset(
        replicated_job("a", containers=[mounts], volumes=[{"name": "tmp"}]),
        replicated_job("b", containers=[{"name": "c"}], initContainers=[mounts]),
        replicated_job("c", containers=[{"name": "c"}]),
        volumeClaimPolicies=[{"templates": [CLAIM]}],
    )
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-js"}}

    found = [build(world, short)["spec"]["template"]["spec"].get("volumes") for short in ("a-0", "b-0", "c-0")]

    assert found == [[{"name": "tmp"}, volume], [volume], None]
