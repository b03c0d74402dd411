"""Built-in kinds: defaults, validation, special subresources."""

from __future__ import annotations

import pytest

C = {"name": "c", "image": "x"}
JOB = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [C]}}}


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [C], **spec}}


def job(**spec):
    return {"metadata": {"name": "j"}, "spec": {**JOB, **spec}}


def causes(answer):
    assert answer.status == 422, answer
    return {(c["field"], c["reason"].removeprefix("FieldValue")) for c in answer.body["details"]["causes"]}


async def test_pod_defaults(api):
    limits = {"cpu": "1000m", "memory": "1Gi"}
    made = await api.create("pods", pod(containers=[{**C, "resources": {"limits": limits}}]))
    spec, container = made["spec"], made["spec"]["containers"][0]

    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert spec["serviceAccountName"] == "default"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"containers": []}, "spec.containers", "Required"),
        ({"containers": [{"image": "x"}]}, "spec.containers[0].name", "Required"),
        ({"containers": [C, C]}, "spec.containers[1].name", "Duplicate"),
        ({"restartPolicy": "X"}, "spec.restartPolicy", "NotSupported"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds", "Invalid"),
        ({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator", "Invalid"),
        ({"tolerations": [{"key": "a b"}]}, "spec.tolerations[0].key", "Invalid"),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
            "spec.tolerations[0].operator",
            "Invalid",
        ),
        ({"tolerations": [{"key": "a", "operator": "X"}]}, "spec.tolerations[0].operator", "NotSupported"),
        ({"tolerations": [{"key": "a", "effect": "X"}]}, "spec.tolerations[0].effect", "NotSupported"),
        ({"tolerations": [{"key": "a", "tolerationSeconds": 1}]}, "spec.tolerations[0].effect", "Invalid"),
        (
            {"containers": [{**C, "resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
            "spec.containers[0].resources.limits",
            "Required",
        ),
        (
            {"containers": [{**C, "ports": [{"containerPort": 1, "name": "1"}]}]},
            "spec.containers[0].ports[0].name",
            "Invalid",
        ),
        (
            {
                "containers": [
                    {**C, "ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]}
                ]
            },
            "spec.containers[0].ports[1].hostPort",
            "Duplicate",
        ),
        (
            {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{**C, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../x"}]}],
            },
            "spec.containers[0].volumeMounts.subPath",
            "Invalid",
        ),
        (
            {"containers": [{**C, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            "spec.containers[0].volumeMounts[0].name",
            "NotFound",
        ),
    ],
)
async def test_bad_pods(api, spec, field, reason):
    assert (field, reason) in causes(await api.send("POST", api.path("pods"), pod(**spec)))


async def test_a_wrong_type_in_a_builtin_is_a_bad_request(api):
    answer = await api.send("POST", api.path("pods"), pod(containers="x"))

    assert answer.status == 400
    assert "json: cannot unmarshal string into Go struct field" in answer.body["message"]


async def test_of_a_pod_only_images_and_gates_change(api):
    await api.create("pods", pod(schedulingGates=[{"name": "g/g"}]))
    path = api.path("pods", "p")

    image = await api.send(
        "PATCH",
        path,
        [{"op": "replace", "path": "/spec/containers/0/image", "value": "y"}],
        "application/json-patch+json",
    )
    gates = await api.send("PATCH", path, {"spec": {"schedulingGates": None}}, api.MERGE)
    command = await api.send("PATCH", path, {"spec": {"hostname": "h"}}, api.MERGE)

    assert (image.status, gates.status) == (200, 200)
    assert causes(command) == {("spec", "Forbidden")}


async def test_binding_gives_a_pod_its_node_once(api):
    await api.create("pods", pod())
    binding = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n"}}
    path = api.path("pods", "p", "binding")

    assert (await api.send("POST", path, binding)).status == 201
    bound = (await api.send("GET", api.path("pods", "p"))).body
    assert bound["spec"]["nodeName"] == "n"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert (bound["status"]["conditions"][0]["type"], bound["status"]["conditions"][0]["status"]) == (
        "PodScheduled",
        "True",
    )
    again = await api.send("POST", path, binding)
    assert again.body["message"].endswith('pod p is already assigned to node "n"')


async def test_a_priority_class_fills_in_the_priority(api):
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.send("POST", classes, {"metadata": {"name": "high"}, "value": 7})

    assert (await api.create("pods", pod(priorityClassName="high")))["spec"]["priority"] == 7
    missing = await api.send("POST", api.path("pods"), pod(priorityClassName="nope"))
    assert (missing.status, missing.body["message"]) == (
        403,
        'pods "p" is forbidden: no PriorityClass with name nope was found',
    )


async def test_job_defaults_selector_and_labels(api):
    made = await api.create("jobs", job(), api="batch/v1")
    uid, spec = made["metadata"]["uid"], made["spec"]

    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"]["job-name"] == "j"
    assert made["metadata"]["labels"] == spec["template"]["metadata"]["labels"]
    assert made["status"] == {}


async def test_a_condition_of_failed_pods_counts_when_it_is_true_also_if_its_status_is_empty(api):
    patterns = [{"type": "A"}, {"type": "B", "status": ""}, {"type": "C", "status": "False"}]
    policy = {"rules": [{"action": "Ignore", "onPodConditions": patterns}]}
    spec = {"podFailurePolicy": policy, "template": {"spec": {"containers": [C], "restartPolicy": "Never"}}}
    made = await api.create("jobs", job(**spec), api="batch/v1")
    (rule,) = made["spec"]["podFailurePolicy"]["rules"]

    assert [pattern["status"] for pattern in rule["onPodConditions"]] == ["True", "True", "False"]


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"template": {"spec": {"containers": [C]}}}, "spec.template.spec.restartPolicy", "Required"),
        ({"parallelism": -1}, "spec.parallelism", "Invalid"),
        ({"completionMode": "Indexed", "parallelism": 2}, "spec.completions", "Required"),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex", "Invalid"),
        ({"managedBy": "me"}, "spec.managedBy", "Invalid"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector", "Invalid"),
        (
            {"completionMode": "Indexed", "completions": 2, "successPolicy": {"rules": [{"succeededIndexes": "1-7"}]}},
            "spec.successPolicy.rules[0].succeededIndexes",
            "Invalid",
        ),
    ],
)
async def test_bad_jobs(api, spec, field, reason):
    assert (field, reason) in causes(await api.send("POST", api.path("jobs", api="batch/v1"), job(**spec)))


async def test_a_suspended_job_may_be_placed_and_a_running_one_not(api):
    await api.create("jobs", job(), api="batch/v1")
    path = api.path("jobs", "j", api="batch/v1")
    place = {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}

    assert (await api.send("PATCH", path, place, api.MERGE)).status == 200
    place["spec"]["template"]["spec"]["nodeSelector"]["a"] = "c"
    assert causes(await api.send("PATCH", path, place, api.MERGE)) == {("spec.template", "Invalid")}


async def test_a_job_status_must_be_possible(api):
    await api.create("jobs", job(), api="batch/v1")
    path = api.path("jobs", "j", "status", api="batch/v1")
    done = {"type": "Complete", "status": "True"}

    too_early = await api.send("PATCH", path, {"status": {"conditions": [done]}}, api.MERGE)
    assert ("status.completionTime", "Required") in causes(too_early)
    time = "2026-01-01T00:00:00Z"
    finished = {
        "startTime": time,
        "completionTime": time,
        "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, done],
    }
    assert (await api.send("PATCH", path, {"status": finished}, api.MERGE)).status == 200
    undone = await api.send("PATCH", path, {"status": {"conditions": []}}, api.MERGE)
    assert ("status.conditions", "Invalid") in causes(undone)


async def test_services_get_addresses_unless_headless(api):
    ports = [{"port": 80}]
    first = await api.create("services", {"metadata": {"name": "a"}, "spec": {"ports": ports}})
    second = await api.create("services", {"metadata": {"name": "b"}, "spec": {"ports": ports}})
    headless = await api.create("services", {"metadata": {"name": "c"}, "spec": {"clusterIP": "None"}})

    assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
    assert first["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert headless["spec"]["clusterIPs"] == ["None"]


async def test_secrets_take_text_and_keep_base64(api):
    made = await api.create("secrets", {"metadata": {"name": "s"}, "stringData": {"k": "v"}})

    assert (made["type"], made["data"]) == ("Opaque", {"k": "dg=="})
    assert "stringData" not in made


async def test_an_immutable_config_map_stays(api):
    await api.create("configmaps", {**api.config_map("a"), "immutable": True})
    path = api.path("configmaps", "a")

    assert causes(await api.send("PATCH", path, {"data": {"k": "w"}}, api.MERGE)) == {("data", "Forbidden")}
    assert (await api.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, api.MERGE)).status == 200


async def test_lease_times_have_six_digits_and_updates_a_version(api):
    path = api.path("leases", api="coordination.k8s.io/v1")
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x", "renewTime": "2026-01-02T03:04:05Z"}}
    assert (await api.send("POST", path, lease)).status == 400
    lease["spec"]["renewTime"] = "2026-01-02T03:04:05.000000Z"
    made = (await api.send("POST", path, lease)).body
    assert made["spec"] == lease["spec"]

    assert (await api.send("PUT", f"{path}/l", lease)).status == 422
    answers = [(await api.send("PUT", f"{path}/l", {**made, "spec": {"holderIdentity": who}})).status for who in "ab"]
    assert answers == [200, 409]


async def test_events_of_both_groups_are_one_storage(api):
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    core = {"metadata": {"name": "old"}, "involvedObject": about, "reason": "R", "message": "M", "type": "Normal"}
    await api.create("events", core)
    new = {
        "metadata": {"name": "new"},
        "regarding": about,
        "note": "N",
        "reason": "R",
        "action": "A",
        "type": "Warning",
        "eventTime": "2026-01-02T03:04:05.000001Z",
        "reportingController": "x.test/y",
        "reportingInstance": "i",
    }
    await api.create("events", new, api="events.k8s.io/v1")

    seen_new = (await api.send("GET", api.path("events", "old", api="events.k8s.io/v1"))).body
    seen_old = (await api.send("GET", api.path("events", "new"))).body
    assert (seen_new["apiVersion"], seen_new["note"], seen_new["regarding"]) == ("events.k8s.io/v1", "M", about)
    assert (seen_old["apiVersion"], seen_old["message"], seen_old["reportingComponent"]) == ("v1", "N", "x.test/y")
    listed = await api.send("GET", api.path("events"), fieldSelector="involvedObject.name=p")
    assert len(listed.body["items"]) == 2


async def test_what_a_binding_of_a_role_grants_stays(api):
    path = api.path("rolebindings", api="rbac.authorization.k8s.io/v1")
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "x"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    made = await api.send("POST", path, body)
    assert made.body["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"

    assert causes(await api.send("PATCH", f"{path}/b", {"roleRef": {"name": "y"}}, api.MERGE)) == {
        ("roleRef", "Invalid")
    }


async def test_a_claim_needs_a_size_and_keeps_its_spec(api):
    path = api.path("persistentvolumeclaims")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    assert ("spec.resources[storage]", "Required") in causes(
        await api.send("POST", path, {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}})
    )
    made = await api.send("POST", path, {"metadata": {"name": "c"}, "spec": spec})

    assert made.body["status"] == {"phase": "Pending"}
    changed = await api.send("PATCH", f"{path}/c", {"spec": {"accessModes": ["ReadWriteMany"]}}, api.MERGE)
    assert causes(changed) == {("spec", "Forbidden")}


async def test_nulls_in_lists_are_zero_values_of_their_type(api):
    container = {"name": "c", "image": "i", "args": ["a", None], "env": [None]}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container, None]}}

    refused = await api.send("POST", api.path("pods"), pod)
    container["env"] = []
    pod["spec"]["containers"] = [container]
    made = await api.send("POST", api.path("pods"), pod)

    assert causes(refused) == {
        ("spec.containers[0].env[0].name", "Required"),
        ("spec.containers[1].name", "Required"),
        ("spec.containers[1].image", "Required"),
    }
    assert made.body["spec"]["containers"][0]["args"] == ["a", ""]


async def test_a_job_without_a_name_or_a_spec_is_told_what_it_lacks(api):
    path = api.path("jobs", api="batch/v1")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}

    nameless = await api.send("POST", path, {"spec": {"template": template}})
    empty = await api.send("POST", path, {"metadata": {"name": "j"}})

    assert causes(nameless) == {("metadata.name", "Required")}
    assert causes(empty) == {
        ("spec.template.spec.containers", "Required"),
        ("spec.template.spec.restartPolicy", "Required"),
    }


async def test_a_service_that_does_not_publish_unready_addresses_says_nothing_of_it(api):
    spec = {"clusterIP": "None", "publishNotReadyAddresses": False}

    made = await api.create("services", {"metadata": {"name": "s"}, "spec": spec})

    assert "publishNotReadyAddresses" not in made["spec"]
    assert "publishNotReadyAddresses" not in str(made["metadata"]["managedFields"])
