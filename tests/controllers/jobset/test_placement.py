"""Exclusive placement: what a pod gets on its way in, and which pods must go."""

from __future__ import annotations

from functools import partial

import anyio
import msgspec
import pytest

from ktrain.api.core import JOBS, NODES, PODS, untyped
from ktrain.api.jobset import JobSetPod
from ktrain.api.meta import Key, Object
from ktrain.controllers.jobset import JobSetPods
from ktrain.controllers.jobset.placement import Misplaced, check, place
from ktrain.controllers.jobset.pod_controller import make_pod_controller
from ktrain.framework import Cache, Client, Manager
from ktrain.framework.errors import ApiError
from ktrain.local.server import make_server
from ktrain.pipeline import Registry
from ktrain.testing.time import simulate

RACK = "example.com/rack"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
BY_HAND = "alpha.jobset.sigs.k8s.io/node-selector"
KEY = "jobset.sigs.k8s.io/job-key"
PRIORITY = "jobset.sigs.k8s.io/priority"


def pod(index, *, node="", name="", uid="uid-job", priority=None, exclusive=True, phase="Pending", **annotations):
    """A pod of the Job js-a-0."""
    keys = {
        "jobset.sigs.k8s.io/jobset-name": "js",
        "jobset.sigs.k8s.io/replicatedjob-name": "a",
        "jobset.sigs.k8s.io/job-index": "0",
        KEY: "digest",
    }
    marks = {**keys, "batch.kubernetes.io/job-completion-index": str(index), **annotations}
    if exclusive:
        marks[EXCLUSIVE] = RACK
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "js-a-0", "uid": uid, "controller": True}
    metadata = {"namespace": "ns", "labels": keys, "annotations": marks, "ownerReferences": [owner]}
    metadata["name"] = name or f"js-a-0-{index}-xyz"
    spec = {"containers": [{"name": "main", "image": "none"}]}
    if node:
        spec["nodeName"] = node
    if priority is not None:
        spec["priority"] = priority
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


class Cluster:
    """Pods, and one node in a rack."""

    def __init__(self, *pods, labels=None):
        self._pods = [msgspec.convert(one, JobSetPod) for one in pods]
        self._labels = {RACK: "r1"} if labels is None else labels

    def pods_of(self, namespace, jobset):
        assert (namespace, jobset) == ("ns", "js")
        return self._pods

    def node(self, name):
        return msgspec.convert({"metadata": {"name": name, "labels": self._labels}}, Object) if name == "n1" else None


def selector(placed):
    return placed["spec"].get("nodeSelector")


def test_a_leader_takes_a_domain_of_which_others_of_its_priority_keep_out():
    spec = place(pod(0, priority=5), "ns", Cluster())["spec"]
    near, far = (
        spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"]
        for kind in ("podAffinity", "podAntiAffinity")
    )

    assert [term["topologyKey"] for term in (*near, *far)] == [RACK, RACK]
    assert [term["namespaceSelector"] for term in (*near, *far)] == [{}, {}]
    assert near[0]["labelSelector"]["matchExpressions"] == [{"key": KEY, "operator": "In", "values": ["digest"]}]
    assert far[0]["labelSelector"]["matchExpressions"] == [
        {"key": KEY, "operator": "Exists"},
        {"key": KEY, "operator": "NotIn", "values": ["digest"]},
        {"key": PRIORITY, "operator": "In", "values": ["5"]},
    ]


def test_a_follower_goes_where_its_leader_is():
    assert selector(place(pod(1), "ns", Cluster(pod(0, node="n1")))) == {RACK: "r1"}


@pytest.mark.parametrize(
    "others",
    [[], [pod(0)], [pod(0, node="n1", uid="another")], [pod(0, node="n1"), pod(0, name="js-a-0-0-abc")]],
)
def test_without_one_leader_on_a_node_a_follower_is_left_alone_and_then_refused(others):
    placed = place(pod(1), "ns", Cluster(*others))

    assert selector(placed) is None
    with pytest.raises(Misplaced, match="follower pod node selector not set"):
        check(placed, "ns", Cluster(*others))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], "expected 1 leader pod (js-a-0-0), but got 0. this is an expected, transient error"),
        ([pod(0, phase="Failed", node="n1")], "expected 1 leader pod (js-a-0-0), but got 0"),
        ([pod(0)], "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error"),
        ([pod(0, node="n1", uid="another")], "belongs to another Job object"),
    ],
)
def test_a_follower_with_a_selector_is_refused_while_its_leader_is_nowhere(others, message):
    placed = place(pod(1), "ns", Cluster(pod(0, node="n1")))

    with pytest.raises(Misplaced) as refusal:
        check(placed, "ns", Cluster(*others))
    assert message in str(refusal.value)


def test_a_selector_for_something_else_does_not_do():
    other = pod(1)
    other["spec"]["nodeSelector"] = {"zone": "x"}

    with pytest.raises(Misplaced, match=f"missing selector: {RACK}"):
        check(other, "ns", Cluster())


def test_a_leader_on_a_node_without_domain_refuses_its_followers():
    with pytest.raises(Misplaced, match=f"lacks the label {RACK}"):
        place(pod(1), "ns", Cluster(pod(0, node="n1"), labels={}))


@pytest.mark.parametrize("given", [pod(1, exclusive=False), pod(1, **{BY_HAND: "true"})])
def test_other_pods_go_where_they_want(given):
    assert place(given, "ns", Cluster()) == given
    check(given, "ns", Cluster())


def test_every_pod_of_a_jobset_carries_its_priority_but_those_placed_by_hand():
    labels = place(pod(1, exclusive=False, priority=0), "ns", Cluster())["metadata"]["labels"]

    assert labels[PRIORITY] == "0"
    assert PRIORITY not in place(pod(1, priority=0, **{BY_HAND: "true"}), "ns", Cluster())["metadata"]["labels"]


def served(scenario):
    """Run `scenario(create, client, env)` on a server with two racks of one node, and the pod controller."""

    async def main(env):
        server = make_server(env, Registry(()))
        client = Client(server.transport(), env, field_manager="test")
        async with server.running(), anyio.create_task_group() as tasks:
            for number in (1, 2):
                labels = {RACK: f"r{number}"}
                body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}", "labels": labels}}
                await client.create(NODES, body)
            cache = Cache(client, env)
            made = make_pod_controller(client, cache, env, JobSetPods(cache))
            await tasks.start(Manager(cache=cache, controllers=[made]).run)
            owner = await client.create(JOBS, job())
            try:
                return await scenario(partial(create, client, owner.metadata.uid), client, env)
            finally:
                tasks.cancel_scope.cancel()

    return simulate(main)


def job():
    """The owner of the pods: those without one would be collected."""
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"restartPolicy": "Never", **pod(0)["spec"]}}
    spec = {"suspend": True, "template": template}
    metadata = {"name": "js-a-0", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


async def create(client, owner, given):
    metadata = given["metadata"]
    owners = [{**metadata["ownerReferences"][0], "uid": owner}]
    body = {**given, "metadata": {**metadata, "namespace": "default", "ownerReferences": owners}}
    body.pop("status")
    return await client.create(untyped(PODS), body)


def test_on_a_server_followers_wait_for_their_leader_and_share_its_rack():
    async def scenario(create, _client, _env):
        with pytest.raises(ApiError) as early:
            await create(pod(1))
        leader = await create(pod(0, node="n2"))
        follower = await create(pod(1))
        return early.value, "affinity" in leader["spec"], selector(follower)

    early, led, rack = served(scenario)

    assert (early.code, led, rack) == (403, True, {RACK: "r2"})
    assert 'admission webhook "vpod.kb.io" denied the request: follower pod node selector not set' in str(early)


@pytest.mark.parametrize(("rack", "by_hand", "stays"), [("r1", False, True), ("r2", False, False), ("r2", True, True)])
def test_followers_elsewhere_are_marked_and_deleted_and_those_placed_by_hand_are_not(rack, by_hand, stays):
    marks = {BY_HAND: "true"} if by_hand else {}

    async def scenario(create, client, env):
        await create(pod(0, node="n1", **marks))
        follower = pod(1, **marks)
        follower["spec"]["nodeSelector"] = {RACK: rack}
        # The rules on admission would put it right: it was made before its leader moved.
        follower["metadata"]["labels"].pop("jobset.sigs.k8s.io/jobset-name")
        follower["metadata"]["finalizers"] = ["example.com/hold"]
        await create(follower)
        name = {"metadata": {"labels": {"jobset.sigs.k8s.io/jobset-name": "js"}}}
        await client.patch(PODS, Key("default", "js-a-0-1-xyz"), name)
        await client.patch(PODS, Key("default", "js-a-0-0-xyz"), {"metadata": {"labels": {"touched": "yes"}}})
        await env.clock.sleep(5)
        found = await client.get(PODS, "js-a-0-1-xyz", "default")
        return found.metadata.deletion_timestamp is None, [one.reason for one in found.status.conditions]

    expected = (True, []) if stays else (False, ["ExclusivePlacementViolation"])
    assert served(scenario) == expected
