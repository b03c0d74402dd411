"""What built-in admission writes into pods and refuses: limits, priorities, runtime classes, tolerations."""

import json

import pytest

from ..waiting import until

CONTAINER = {"name": "c", "image": "x"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
def send(control_plane):
    async def send(path, body, method="POST", **query):
        headers = {"Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        answer = await control_plane.transport.request(
            method, path, query=list(query.items()), headers=headers, body=data
        )
        return answer.status, json.loads(answer.body)

    return send


@pytest.fixture
def pod(control_plane, send):
    """Create a pod in a dry run; return its spec and annotations, or why it is refused."""

    async def create(*resources, **spec):
        containers = [{**CONTAINER, "name": f"c{i}", "resources": one} for i, one in enumerate(resources or [{}])]
        body = {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}
        path = f"/api/v1/namespaces/{control_plane.namespace}/pods"
        status, answer = await send(path, body, dryRun="All")
        if status == 201:
            return answer["spec"], answer["metadata"].get("annotations", {})
        assert status == 403, answer
        return answer["message"].partition(" is forbidden: ")[2]

    return create


@pytest.fixture
def limited(control_plane, send):
    """Have a LimitRange in force."""

    async def limited(*limits):
        core = f"/api/v1/namespaces/{control_plane.namespace}"
        made = []
        for name, some in {
            "l": limits,
            "later": [{"type": "PersistentVolumeClaim", "min": {"storage": "1Ki"}}],
        }.items():
            made.append(await send(f"{core}/limitranges", {"metadata": {"name": name}, "spec": {"limits": [*some]}}))
            assert made[-1][0] == 201, made
        # Upstream reads them from a cache: where the later one is known, which is for tiny claims, so is the other.
        tiny = {"metadata": {"name": "v"}, "spec": {**CLAIM, "resources": {"requests": {"storage": "1"}}}}
        await until(lambda: send(f"{core}/persistentvolumeclaims", tiny, dryRun="All"), lambda said: said[0] == 403)
        return made[0][1]["spec"]["limits"]

    return limited


async def test_containers_get_what_they_do_not_say(limited, pod):
    limits = await limited({"type": "Container", "max": {"memory": "1Gi"}, "defaultRequest": {"cpu": "200m"}})
    assert limits[0]["default"] == {"memory": "1Gi"}
    assert limits[0]["defaultRequest"] == {"memory": "1Gi", "cpu": "200m"}
    spec, annotations = await pod({}, {"requests": {"cpu": "1"}}, initContainers=[{**CONTAINER, "name": "i"}])
    assert [one["resources"] for one in spec["containers"]] == [
        {"limits": {"memory": "1Gi"}, "requests": {"cpu": "200m", "memory": "1Gi"}},
        {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
    ]
    assert annotations["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container c0; memory limit for container c0; memory request "
        "for container c1; memory limit for container c1; cpu, memory request for init container i; memory limit for "
        "init container i"
    )


async def test_a_container_keeps_within_its_limits(limited, pod):
    ratio = {"maxLimitRequestRatio": {"cpu": "2"}}
    await limited({"type": "Container", "max": {"memory": "1Gi"}, "min": {"cpu": "100m"}, **ratio})
    refused = await pod({"limits": {"memory": "2Gi", "cpu": "300m"}, "requests": {"cpu": "50m", "memory": "1Gi"}})
    assert refused == (
        "[minimum cpu usage per Container is 100m, but request is 50m, "
        "maximum memory usage per Container is 1Gi, but limit is 2Gi, "
        "cpu max limit to request ratio per Container is 2, but provided ratio is 6.000000]"
    )


async def test_a_pod_keeps_within_its_limits_as_a_whole(limited, pod):
    await limited({"type": "Pod", "max": {"cpu": "1"}})
    assert await pod() == "maximum cpu usage per Pod is 1.  No limit is specified"
    half = {"limits": {"cpu": "500m"}}
    assert (await pod(half, half))[0]["containers"]
    assert await pod(half, {"limits": {"cpu": "600m"}}) == "maximum cpu usage per Pod is 1, but limit is 1100m"


async def test_a_limit_range_may_say_nothing(send, control_plane, pod):
    path = f"/api/v1/namespaces/{control_plane.namespace}/limitranges"
    assert (await send(path, {"metadata": {"name": "l"}}))[0] == 201
    assert (await pod())[0]["containers"]


async def test_a_claim_keeps_within_its_limits(limited, send, control_plane):
    await limited({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}, "min": {"storage": "1Mi"}})
    path = f"/api/v1/namespaces/{control_plane.namespace}/persistentvolumeclaims"
    texts = {"1Gi": "", "2Gi": "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"}
    for size, text in (
        texts | {"1Ki": "minimum storage usage per PersistentVolumeClaim is 1Mi, but request is 1Ki"}
    ).items():
        spec = {**CLAIM, "resources": {"requests": {"storage": size}}}
        status, answer = await send(path, {"metadata": {"name": "v"}, "spec": spec}, dryRun="All")
        assert (status, answer.get("message", "").partition(": ")[2]) == (403 if text else 201, text)


@pytest.mark.parametrize(
    ("limit", "field", "text"),
    [
        (
            {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
            "min[cpu]",
            "min value 2 is greater than max",
        ),
        ({"type": "Pod", "default": {"cpu": "2"}}, "default", "Forbidden: may not be specified when `type` is 'Pod'"),
        ({"type": "PersistentVolumeClaim"}, "limits", "Required value: either minimum or maximum storage value is req"),
        ({"type": "Foo", "max": {"cpu": "1"}}, "type", "must be a standard limit type or fully qualified"),
        ({"type": "Container", "max": {"foo": "1"}}, "max[foo]", "must be a standard resource"),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}},
            "maxLimitRequestRatio[cpu]",
            "ratio 500m is less",
        ),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(send, control_plane, limit, field, text):
    path = f"/api/v1/namespaces/{control_plane.namespace}/limitranges"
    status, answer = await send(path, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}, dryRun="All")
    assert status == 422, answer
    messages = [one["message"] for one in answer["details"]["causes"] if one["field"] == f"spec.limits[0].{field}"]
    assert any(text in one for one in messages), answer


@pytest.fixture
async def classes(send, pod, control_plane):
    """A RuntimeClass and a PriorityClass of this test's own."""
    name = control_plane.namespace
    scheduling = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}
    runtime = {"handler": "h", "overhead": {"podFixed": {"cpu": "100m"}}, "scheduling": scheduling}
    paths = {
        "/apis/node.k8s.io/v1/runtimeclasses": runtime,
        "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 7, "preemptionPolicy": "Never"},
    }
    for path, body in paths.items():
        status, answer = await send(path, {"metadata": {"name": name}, **body})
        assert status == 201, answer
    # Upstream reads them from caches; a refusal is a text.
    await until(lambda: pod(runtimeClassName=name, priorityClassName=name), lambda made: not isinstance(made, str))
    yield name
    for path in paths:
        await send(f"{path}/{name}", None, method="DELETE")


async def test_a_pod_takes_over_what_its_runtime_class_says(classes, pod):
    spec, _ = await pod(runtimeClassName=classes)
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "100m"}, {"a": "b"})
    assert [one["key"] for one in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "k",
    ]
    mismatch = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    assert await pod(runtimeClassName=classes, overhead={"cpu": "1"}) == mismatch
    conflict = "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
    assert await pod(runtimeClassName=classes, nodeSelector={"a": "c"}) == conflict
    alone = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    assert await pod(overhead={"cpu": "1"}) == alone
    assert await pod(runtimeClassName="nope") == 'pod rejected: RuntimeClass "nope" not found'


async def test_a_pod_takes_over_its_priority_and_may_not_name_another(classes, pod):
    spec, _ = await pod(priorityClassName=classes)
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    assert (await pod(priorityClassName=classes, priority=3)).startswith(
        "the integer value of priority (3) must not be"
    )
    refused = await pod(priorityClassName=classes, preemptionPolicy="PreemptLowerPriority")
    assert refused.startswith("the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided")
    assert await pod(priorityClassName="nope") == "no PriorityClass with name nope was found"


async def test_a_pod_that_tolerates_failing_nodes_is_left_alone(pod):
    assert (await pod(tolerations=[{"operator": "Exists"}]))[0]["tolerations"] == [{"operator": "Exists"}]
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec, _ = await pod(tolerations=[own])
    assert [one.get("tolerationSeconds") for one in spec["tolerations"]] == [None, 300]


async def test_a_claim_without_a_class_gets_the_default_one(send, control_plane):
    name = control_plane.namespace
    classes, claims = "/apis/storage.k8s.io/v1/storageclasses", f"/api/v1/namespaces/{name}/persistentvolumeclaims"
    default = {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    status, answer = await send(classes, {"metadata": default, "provisioner": "x.test/none"})
    assert status == 201, answer

    async def class_of(**given):
        status, answer = await send(claims, {"metadata": {"name": "v"}, "spec": {**CLAIM, **given}}, dryRun="All")
        assert status == 201, answer
        return answer["spec"].get("storageClassName")

    assert await until(class_of) == name  # upstream reads it from a cache
    assert [await class_of(storageClassName=own) for own in ("other", "")] == ["other", ""]
    await send(f"{classes}/{name}", None, method="DELETE")
