"""Evicting pods, adding containers to look around, giving them more to use, and deleting them at once."""

import pytest

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PODS = "/api/v1/namespaces/{ns}/pods"
BUDGETS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
AMOUNTS = {"cpu": "1", "memory": "1Gi"}
RESOURCES = {"limits": AMOUNTS, "requests": AMOUNTS}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


def pod(name="p", **spec):
    container = {"name": "c", "image": "i:1", "resources": spec.pop("resources", {})}
    return {"metadata": {"name": name, "labels": {"a": "b"}}, "spec": {"containers": [container], **spec}}


@pytest.fixture
def running(ask):
    """`await running("p")` makes a pod that runs and is ready, as far as anybody says."""

    async def make(name):
        made = await ask("POST", PODS, pod(name, nodeName="nowhere"))
        assert made.status == 201, made
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await ask("PATCH", f"{PODS}/{name}/status", {"status": status}, MERGE)

    return make


@pytest.fixture
def budget(ask):
    """`await budget(wanted, healthy)` makes a budget, and writes what a controller counts if none does."""

    async def make(wanted, healthy):
        spec = {"minAvailable": wanted, "selector": {"matchLabels": {"a": "b"}}}
        await ask("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        counts = {"currentHealthy": healthy, "desiredHealthy": wanted, "expectedPods": healthy}
        status = {**counts, "observedGeneration": 1, "disruptionsAllowed": max(0, healthy - wanted)}
        await ask("PATCH", f"{BUDGETS}/b/status", {"status": status}, MERGE)

    return make


async def test_an_eviction_that_a_budget_forbids_is_refused_and_says_which(ask, running, budget):
    await running("p")
    await budget(1, 1)
    said = await ask("POST", f"{PODS}/p/eviction", EVICTION)

    assert (said.status, said.body["reason"]) == (429, "TooManyRequests")
    assert said.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert said.body["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}
    ]
    assert "deletionTimestamp" not in (await ask("GET", f"{PODS}/p")).body["metadata"]


async def test_an_eviction_takes_one_from_the_budget_and_says_in_the_pod_why_it_goes(ask, running, budget):
    for name in ("p", "q"):
        await running(name)
    await budget(1, 2)
    said = await ask("POST", f"{PODS}/p/eviction", EVICTION | {"deleteOptions": {"gracePeriodSeconds": 5}})
    going = (await ask("GET", f"{PODS}/p")).body
    status = (await ask("GET", f"{BUDGETS}/b")).body["status"]

    assert (said.status, said.body["status"]) == (201, "Success")
    assert going["metadata"]["deletionGracePeriodSeconds"] == 5
    reasons = {one["type"]: one.get("reason") for one in going["status"]["conditions"]}
    assert reasons == {"Ready": None, "DisruptionTarget": "EvictionByEvictionAPI"}
    assert status["disruptionsAllowed"] == 0
    allowed = [(one["type"], one["status"], one["reason"]) for one in status["conditions"]]
    assert allowed == [("DisruptionAllowed", "False", "InsufficientPods")]


async def test_a_pod_that_never_ran_is_evicted_whatever_its_budget(ask, budget):
    await ask("POST", PODS, pod())
    await budget(1, 0)
    tried = await ask("POST", f"{PODS}/p/eviction?dryRun=All", EVICTION)
    there = await ask("GET", f"{PODS}/p")
    done = await ask("POST", f"{PODS}/p/eviction", EVICTION)

    assert [said.status for said in (tried, there, done, await ask("GET", f"{PODS}/p"))] == [201, 200, 201, 404]


async def test_a_pod_of_two_budgets_cannot_be_evicted(ask, running, budget):
    await running("p")
    await budget(0, 1)
    await ask("POST", BUDGETS, {"metadata": {"name": "other"}, "spec": {"minAvailable": 0, "selector": {}}})
    said = await ask("POST", f"{PODS}/p/eviction", EVICTION)

    assert said.status == 500
    assert said.body["message"].startswith("This pod has more than one PodDisruptionBudget")


async def test_an_eviction_is_of_the_pod_in_its_url(ask):
    await ask("POST", PODS, pod())
    other = await ask("POST", f"{PODS}/p/eviction", EVICTION | {"metadata": {"name": "q"}})
    read = await ask("GET", f"{PODS}/p/eviction")

    assert (other.status, other.body["message"]) == (400, "name in URL does not match name in Eviction object")
    assert read.status == 405


async def test_containers_to_look_around_are_added_and_nothing_else_changes(ask):
    await ask("POST", PODS, pod(nodeName="nowhere"))
    added = {"ephemeralContainers": [{"name": "e", "image": "x"}], "activeDeadlineSeconds": 5}
    body = {"metadata": {"labels": {"x": "y"}}, "spec": added}
    said = await ask("PATCH", f"{PODS}/p/ephemeralcontainers", body, STRATEGIC)

    assert (said.status, said.body["metadata"]["generation"], said.body["metadata"]["labels"]) == (200, 2, {"a": "b"})
    assert [one["name"] for one in said.body["spec"]["ephemeralContainers"]] == ["e"]
    assert "activeDeadlineSeconds" not in said.body["spec"]


LOOKS = {
    "named like another": ({"name": "c", "image": "x"}, "name", 'Duplicate value: "c"'),
    "with ports": (
        {"name": "f", "image": "x", "ports": [{"containerPort": 1}]},
        "ports",
        "Forbidden: cannot be set for an Ephemeral Container",
    ),
    "into nobody": (
        {"name": "f", "image": "x", "targetContainerName": "z"},
        "targetContainerName",
        'Not found: "z"',
    ),
}


@pytest.mark.parametrize("case", LOOKS)
async def test_a_container_to_look_around_may_not_be_more(ask, case):
    container, field, message = LOOKS[case]
    await ask("POST", PODS, pod(nodeName="nowhere"))
    said = await ask(
        "PATCH", f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [container]}}, STRATEGIC
    )

    assert said.causes == {(f"spec.ephemeralContainers[0].{field}", message)}


async def test_containers_to_look_around_neither_go_nor_come_with_the_pod(ask):
    early = await ask("POST", PODS, pod("early", ephemeralContainers=[{"name": "e", "image": "x"}]))
    await ask("POST", PODS, pod(nodeName="nowhere"))
    body = {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}
    await ask("PATCH", f"{PODS}/p/ephemeralcontainers", body, STRATEGIC)
    gone = await ask("PATCH", f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}, MERGE)

    assert early.causes == {("spec.ephemeralContainers", "Forbidden: cannot be set on create")}
    removed = 'Forbidden: existing ephemeral containers "e" may not be removed\n'
    assert gone.causes == {("spec.ephemeralContainers", removed)}


async def test_a_pod_gets_more_to_use_and_keeps_its_class(ask):
    await ask("POST", PODS, pod(resources=RESOURCES))
    more = {"cpu": "2000m", "memory": "1Gi"}

    def resized(**container):
        return {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", **container}]}}

    said = await ask("PATCH", f"{PODS}/p/resize", resized(resources={"limits": more, "requests": more}), STRATEGIC)
    less = await ask("PATCH", f"{PODS}/p/resize", resized(resources={"requests": {"cpu": "1"}}), STRATEGIC)
    gpu = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    other = await ask("PATCH", f"{PODS}/p/resize", resized(resources=gpu), STRATEGIC)
    image = await ask("PATCH", f"{PODS}/p/resize", resized(image="z"), STRATEGIC)

    assert (said.status, said.body["metadata"]["labels"], said.body["metadata"]["generation"]) == (200, {"a": "b"}, 2)
    assert said.body["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    changed = 'Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing'
    assert less.causes == {("spec", changed)}
    assert other.causes == {("spec", "Forbidden: only cpu and memory resources are mutable")}
    assert image.body["spec"]["containers"][0]["image"] == "i:1"


async def test_binding_merges_metadata_and_is_no_change_of_the_spec(ask):
    await ask("POST", PODS, pod())
    target = {"kind": "Node", "name": "nowhere"}
    meta = {"name": "p", "annotations": {"x": "y"}, "labels": {"l": "m"}}
    bound = await ask("POST", f"{PODS}/p/binding", {"metadata": meta, "target": target})
    stored = (await ask("GET", f"{PODS}/p")).body
    again = await ask("POST", "/api/v1/namespaces/{ns}/bindings", {"metadata": {"name": "p"}, "target": target})

    assert (bound.status, stored["spec"]["nodeName"], stored["metadata"]["generation"]) == (201, "nowhere", 1)
    assert (stored["metadata"]["labels"], stored["metadata"]["annotations"]) == ({"a": "b", "l": "m"}, {"x": "y"})
    assert again.body["message"].endswith('pod p is already assigned to node "nowhere"')


async def test_a_pod_deleted_at_once_is_shown_as_deleted(ask, running):
    await running("p")
    later = await ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 10})
    now = await ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})

    shown = [(said.body["metadata"]["deletionGracePeriodSeconds"], said.body["kind"]) for said in (later, now)]
    assert shown == [(10, "Pod"), (0, "Pod")]
    assert [said.body["metadata"]["generation"] for said in (later, now)] == [2, 2]
    assert (await ask("GET", f"{PODS}/p")).status == 404


async def test_the_status_of_a_pod_is_written_with_its_labels_but_not_its_owners(ask):
    await ask("POST", PODS, pod())
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}
    body = {"metadata": {"labels": {"x": "y"}, "ownerReferences": [owner]}, "status": {"phase": "Running"}}
    said = await ask("PATCH", f"{PODS}/p/status", body, MERGE)

    assert (said.body["metadata"]["labels"], said.body["status"]["phase"]) == ({"a": "b", "x": "y"}, "Running")
    assert "ownerReferences" not in said.body["metadata"]
