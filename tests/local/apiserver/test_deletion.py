"""DELETE, garbage collection, namespaces."""

from __future__ import annotations

import pytest

from ktrain.local.apiserver.admission.chain import AdmissionPlugin
from ktrain.local.apiserver.server import ApiServer

POD = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}}
JOB_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}


async def test_an_object_that_nothing_holds_goes_at_once(api):
    made = await api.create("configmaps", api.config_map("a"))
    path = api.path("configmaps", "a")

    answer = await api.send("DELETE", path)

    assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert (await api.send("GET", path)).status == 404


async def test_a_finalizer_holds_and_its_removal_is_the_deletion(api, server):
    server.install_crds([api.widget_crd()])
    made = await api.create("widgets", api.widget("a", {}, finalizers=["a/b"]), api="ex.test/v1")
    path = api.path("widgets", "a", api="ex.test/v1")
    collection = api.path("widgets", api="ex.test/v1")
    async with api.watch(collection, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        held = (await api.send("DELETE", path)).body
        assert held["metadata"]["generation"] == 2
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert (await api.send("DELETE", path)).body["metadata"] == held["metadata"]
        refused = await api.send("PATCH", path, {"metadata": {"finalizers": ["a/b", "c/d"]}}, api.MERGE)
        assert "no new finalizers can be added" in refused.body["message"]
        assert (await api.send("PATCH", path, {"metadata": {"finalizers": None}}, api.MERGE)).status == 200

        assert [(await anext(events))["type"] for _ in range(2)] == ["MODIFIED", "DELETED"]
    assert (await api.send("GET", path)).status == 404


async def test_a_running_pod_waits_for_its_kubelet_and_a_finished_one_does_not(api):
    await api.create("pods", POD)
    path = api.path("pods", "p")

    held = (await api.send("DELETE", path)).body
    assert held["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = (await api.send("DELETE", path, {"gracePeriodSeconds": 5})).body
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = (await api.send("DELETE", path, {"gracePeriodSeconds": 60})).body
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.send("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": held["metadata"]["uid"]}})
    assert (await api.send("GET", path)).status == 404

    await api.create("pods", POD)
    await api.send("PATCH", f"{path}/status", {"status": {"phase": "Failed"}}, api.MERGE)
    await api.send("DELETE", path)
    assert (await api.send("GET", path)).status == 404


async def test_the_wrong_uid_deletes_nothing(api):
    await api.create("configmaps", api.config_map("a"))

    answer = await api.send("DELETE", api.path("configmaps", "a"), {"preconditions": {"uid": "x"}})

    assert answer.status == 409
    assert "the UID in the precondition (x) does not match" in answer.body["message"]


async def test_a_collection_is_deleted_by_selector(api):
    for name in "ab":
        await api.create("configmaps", api.config_map(name, labels={"n": name}))

    answer = await api.send("DELETE", api.path("configmaps"), labelSelector="n=a")

    assert [i["metadata"]["name"] for i in answer.body["items"]] == ["a"]
    left = (await api.send("GET", api.path("configmaps"))).body["items"]
    assert [i["metadata"]["name"] for i in left] == ["b"]


async def test_dependents_go_in_the_background_unless_another_owner_is_left(api):
    first = await api.create("configmaps", api.config_map("first"))
    other = await api.create("configmaps", api.config_map("other"))
    await api.create("configmaps", api.config_map("only", ownerReferences=[api.owner(first)]))
    both = [api.owner(first), api.owner(other)]
    shared = await api.create("configmaps", api.config_map("shared", ownerReferences=both))
    version = shared["metadata"]["resourceVersion"]
    await api.send("DELETE", api.path("configmaps", "first"))

    events = await api.events(api.path("configmaps"), 3, resourceVersion=version)

    seen = {(e["type"], e["object"]["metadata"]["name"]) for e in events}
    assert seen == {("DELETED", "first"), ("DELETED", "only"), ("MODIFIED", "shared")}
    kept = (await api.send("GET", api.path("configmaps", "shared"))).body
    assert kept["metadata"]["ownerReferences"] == [api.owner(other)]


async def test_an_owner_in_foreground_deletion_goes_after_those_that_block_it(api):
    top = await api.create("configmaps", api.config_map("top"))
    reference = api.owner(top, blockOwnerDeletion=True)
    await api.create("configmaps", api.config_map("child", ownerReferences=[reference], finalizers=["a/b"]))
    held = (await api.send("DELETE", api.path("configmaps", "top"), {"propagationPolicy": "Foreground"})).body
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]

    await api.events(api.path("configmaps"), 1, resourceVersion=held["metadata"]["resourceVersion"])
    child = (await api.send("GET", api.path("configmaps", "child"))).body
    assert "deletionTimestamp" in child["metadata"]
    assert (await api.send("GET", api.path("configmaps", "top"))).status == 200

    await api.send("PATCH", api.path("configmaps", "child"), {"metadata": {"finalizers": None}}, api.MERGE)
    await api.gone(api.path("configmaps", "top"))


async def test_a_circle_of_owners_that_block_each_other_goes(api):
    a = await api.create("configmaps", api.config_map("a"))
    b = await api.create("configmaps", api.config_map("b", ownerReferences=[api.owner(a, blockOwnerDeletion=True)]))
    references = {"metadata": {"ownerReferences": [api.owner(b, blockOwnerDeletion=True)]}}
    await api.send("PATCH", api.path("configmaps", "a"), references, api.MERGE)

    await api.send("DELETE", api.path("configmaps", "a"), {"propagationPolicy": "Foreground"})

    await api.gone(api.path("configmaps", "a"))
    await api.gone(api.path("configmaps", "b"))


async def test_jobs_orphan_by_default_and_say_so(api):
    spec = {"spec": {"suspend": True, "template": JOB_TEMPLATE}}
    job = await api.create("jobs", {"metadata": {"name": "j"}, **spec}, api="batch/v1")
    await api.create("configmaps", api.config_map("child", ownerReferences=[api.owner(job)]))

    answer = await api.send("DELETE", api.path("jobs", "j", api="batch/v1"))

    assert "child pods are preserved by default" in answer.warnings
    await api.gone(api.path("jobs", "j", api="batch/v1"))
    child = (await api.send("GET", api.path("configmaps", "child"))).body
    assert "ownerReferences" not in child["metadata"]


async def test_a_dependent_of_an_owner_that_never_was_is_collected(api):
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "u"}
    await api.create("configmaps", api.config_map("a", ownerReferences=[ghost]))

    await api.gone(api.path("configmaps", "a"))


async def test_a_dependent_whose_owners_kind_is_unknown_stays(api):
    unknown = {"apiVersion": "no.such/v1", "kind": "Thing", "name": "x", "uid": "u"}
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "v"}
    await api.create("configmaps", api.config_map("a", ownerReferences=[unknown]))
    await api.create("configmaps", api.config_map("b", ownerReferences=[ghost]))

    await api.gone(api.path("configmaps", "b"))
    assert (await api.send("GET", api.path("configmaps", "a"))).status == 200


async def test_a_namespace_dies_after_its_content(api):
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    api.namespace = "ns"
    await api.create("configmaps", api.config_map("held", finalizers=["a/b"]))
    await api.create("configmaps", api.config_map("free"))

    answer = await api.send("DELETE", "/api/v1/namespaces/ns")
    assert answer.body["status"]["phase"] == "Terminating"
    await api.gone(api.path("configmaps", "free"))
    refused = await api.send("POST", api.path("configmaps"), api.config_map("new"))
    assert refused.status == 403
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    await api.send("PATCH", api.path("configmaps", "held"), {"metadata": {"finalizers": None}}, api.MERGE)
    await api.gone("/api/v1/namespaces/ns")


async def test_a_new_namespace_gets_its_default_account(api):
    await api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    api.namespace = "ns"

    (event,) = await api.events(api.path("serviceaccounts"), 1)

    assert event["object"]["metadata"]["name"] == "default"


async def test_namespaces_that_are_the_cluster_cannot_be_deleted(api):
    assert (await api.send("DELETE", "/api/v1/namespaces/default")).status == 403


async def test_a_grace_period_beyond_all_time_ends_with_it(api):
    container = {"name": "c", "image": "i"}
    await api.create("pods", {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [container]}})

    deleted = await api.send("DELETE", api.path("pods", "p"), gracePeriodSeconds=str(2**62))

    assert deleted.status == 200
    assert deleted.body["metadata"]["deletionTimestamp"].startswith("9999-")


@pytest.fixture
async def shaky(env, api):
    """A server on which the first deletion of an object named `odd` fails with a defect."""
    left = ["odd"]

    def fail_once(request):
        if request.operation == "DELETE" and request.name in left and deleting:
            left.remove(request.name)
            raise ZeroDivisionError("oops")

    deleting = []
    async with ApiServer(env, admission=[AdmissionPlugin("shaky", fail_once)]).running() as server:
        api = type(api)(server.transport(), "ns")
        await api.send("POST", api.path("namespaces", cluster=True), {"metadata": {"name": "ns"}})
        yield api, deleting
    assert not left


async def test_a_defect_at_one_object_does_not_end_the_garbage_collector(shaky):
    api, deleting = shaky
    owner = await api.create("configmaps", api.config_map("owner"))
    for name in ("odd", "even"):
        await api.create("configmaps", api.config_map(name, ownerReferences=[api.owner(owner)]))

    deleting.append(True)
    await api.send("DELETE", api.path("configmaps", "owner"), propagationPolicy="Background")

    await api.gone(api.path("configmaps", "even"))
    await api.gone(api.path("configmaps", "odd"))


async def test_a_defect_at_one_object_does_not_keep_a_namespace(shaky):
    api, deleting = shaky
    for name in ("even", "odd", "zeven"):
        await api.create("configmaps", api.config_map(name))

    deleting.append(True)
    await api.send("DELETE", api.path("namespaces", "ns", cluster=True))

    await api.gone(api.path("namespaces", "ns", cluster=True))


async def test_a_defect_at_one_object_does_not_keep_its_definition(shaky):
    api, deleting = shaky
    definitions = api.path("customresourcedefinitions", api="apiextensions.k8s.io/v1", cluster=True)
    await api.send("POST", definitions, api.widget_crd())
    for name in ("odd", "zeven"):
        await api.create("widgets", api.widget(name), "ex.test/v1")

    deleting.append(True)
    await api.send("DELETE", f"{definitions}/widgets.ex.test")

    await api.gone(f"{definitions}/widgets.ex.test")
