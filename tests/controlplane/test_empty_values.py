"""What is empty and what is absent: built-in kinds are typed, and typed encoding leaves most empty values out."""

MERGE = "application/merge-patch+json"
MAPS = "/api/v1/namespaces/{ns}/configmaps"
PODS = "/api/v1/namespaces/{ns}/pods"


async def test_data_that_became_empty_is_no_data(ask):
    await ask("POST", MAPS, {"metadata": {"name": "x"}, "data": {"a": "b"}})
    emptied = await ask("PATCH", f"{MAPS}/x", {"data": {"a": None}}, MERGE)
    put = await ask("PUT", f"{MAPS}/x", {"metadata": {"name": "x", "labels": {}}, "data": {}, "binaryData": {}})

    for said in (emptied, put):
        assert not {"data", "binaryData"} & said.body.keys()
    assert "labels" not in put.body["metadata"]


async def test_zeros_that_a_pod_may_leave_out_are_left_out_and_those_that_say_something_stay(ask):
    container = {
        "name": "c",
        "image": "i:1",
        "args": [],
        "command": ["x", ""],
        "env": [{"name": "A", "value": ""}],
        "stdin": False,
        "workingDir": "",
        "securityContext": {"runAsUser": 0, "privileged": False},
        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": False}],
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "hostNetwork": False,
        "nodeSelector": {},
        "restartPolicy": "",
        "terminationGracePeriodSeconds": 0,
    }
    said = await ask("POST", f"{PODS}?dryRun=All", {"metadata": {"name": "p"}, "spec": spec})
    stored = said.body["spec"]
    (made,) = stored["containers"]

    assert not {"hostNetwork", "nodeSelector"} & stored.keys()
    assert not {"args", "stdin", "workingDir"} & made.keys()
    assert (made["command"], made["env"]) == (["x", ""], [{"name": "A"}])
    assert made["securityContext"] == {"runAsUser": 0, "privileged": False}
    assert {"name": "v", "mountPath": "/v"} in made["volumeMounts"]
    assert (stored["restartPolicy"], stored["terminationGracePeriodSeconds"]) == ("Always", 0)
    assert {"name": "v", "emptyDir": {}} in stored["volumes"]


async def test_an_empty_map_in_an_applied_configuration_is_owned_and_not_stored(ask):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}}
    said = await ask("PATCH", f"{MAPS}/x?fieldManager=m", body, "application/apply-patch+yaml")
    (entry,) = said.body["metadata"]["managedFields"]

    assert "data" not in said.body
    assert entry["fieldsV1"] == {"f:data": {}}
