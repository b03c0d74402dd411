"""JobSet specs as Go's typed objects write them: without what is empty, with canonical amounts."""

import copy

import pytest

from ktrain.api.typed import as_typed


def pod_spec(**pod) -> dict:
    return {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": pod}}}}]}


def container(**fields) -> dict:
    return pod_spec(containers=[{"name": "c", **fields}])


@pytest.mark.parametrize(
    ("spec", "written"),
    [
        (container(args=[], command=["x", ""], stdin=False, workingDir=""), container(command=["x", ""])),
        (container(env=[{"name": "A", "value": ""}]), container(env=[{"name": "A"}])),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/v", "readOnly": False}]),
            container(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        ),
        (pod_spec(hostNetwork=False, nodeSelector={}, tolerations=[], volumes=[]), pod_spec()),
        ({"failurePolicy": {"maxRestarts": 0, "rules": []}}, {"failurePolicy": {}}),
        ({"successPolicy": {"operator": "All", "targetReplicatedJobs": []}}, {"successPolicy": {"operator": "All"}}),
        (
            {"coordinator": {"replicatedJob": "a", "jobIndex": 0, "podIndex": 1}},
            {"coordinator": {"replicatedJob": "a", "podIndex": 1}},
        ),
        ({"network": {"subdomain": "", "enableDNSHostnames": False}}, {"network": {"enableDNSHostnames": False}}),
        ({"replicatedJobs": [{"name": "a", "dependsOn": [], "groupName": ""}]}, {"replicatedJobs": [{"name": "a"}]}),
        ({"replicatedJobs": None, "volumeClaimPolicies": []}, {}),
    ],
)
def test_what_is_empty_is_left_out(spec, written):
    before = copy.deepcopy(spec)

    assert as_typed(spec) == written
    assert spec == before


@pytest.mark.parametrize(
    "spec",
    [
        {"suspend": False, "ttlSecondsAfterFinished": 0},
        {"replicatedJobs": [{"name": "a", "replicas": 0, "template": {"spec": {"parallelism": 0}}}]},
        pod_spec(terminationGracePeriodSeconds=0, affinity={}, volumes=[{"name": "v", "emptyDir": {}}]),
        container(securityContext={"runAsUser": 0, "privileged": False}),
        container(fieldOfALaterRelease=[], resources={"limits": {"example.com/x": "odd"}}),
        {"fieldOfALaterRelease": {}, "startupPolicy": {"startupPolicyOrder": "InOrder", "rules": []}},
    ],
)
def test_what_says_something_stays_and_so_does_what_nobody_knows(spec):
    assert as_typed(spec) == spec


@pytest.mark.parametrize(("said", "written"), [("0.5", "500m"), ("1024Mi", "1Gi"), (2, "2"), ("1.5e3", "1500")])
def test_amounts_are_canonical(said, written):
    claims = [{"templates": [{"spec": {"resources": {"requests": {"storage": said}}}}]}]
    spec = container(resources={"limits": {"cpu": said}}) | {"volumeClaimPolicies": claims}
    spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["volumes"] = [
        {"name": "v", "emptyDir": {"sizeLimit": said}}
    ]
    found = as_typed(spec)
    pod = found["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]

    assert pod["containers"][0]["resources"]["limits"]["cpu"] == written
    assert pod["volumes"][0]["emptyDir"]["sizeLimit"] == written
    assert found["volumeClaimPolicies"][0]["templates"][0]["spec"]["resources"]["requests"]["storage"] == written


def test_a_reference_to_a_resource_says_its_divisor():
    spec = container(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}])
    (env,) = as_typed(spec)["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["env"]

    assert env["valueFrom"]["resourceFieldRef"] == {"resource": "limits.cpu", "divisor": "0"}


def test_a_rule_for_failed_pods_says_which_status_a_condition_has_also_if_none_is_meant():
    said = {"type": "DisruptionTarget"}
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [said, {"type": "Ready", "status": "False"}]}]}
    found = as_typed({"replicatedJobs": [{"name": "a", "template": {"spec": {"podFailurePolicy": policy}}}]})
    (rule,) = found["replicatedJobs"][0]["template"]["spec"]["podFailurePolicy"]["rules"]

    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": ""}, {"type": "Ready", "status": "False"}]
