"""Kinds that the embedded server only stores: what is filled in, what is refused, and how they are scaled."""

import copy

import pytest

from .stored import (
    APPS,
    AUTOSCALERS,
    BUDGETS,
    CONTAINER,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOB_SPEC,
    POLICIES,
    QUOTAS,
    SELECTOR,
    STATEFUL_SETS,
    named,
    scaled,
    selected,
)

MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FILLED = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [
            {
                **CONTAINER,
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
}
LIMITS = {"minReplicas": 1, "maxReplicas": 3}

SLICES = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
KEPT = {"whenDeleted": "Retain", "whenScaled": "Retain"}
FILLED_IN = {
    "Deployment": (
        DEPLOYMENTS,
        selected(),
        selected(template=FILLED, replicas=1, strategy=ROLLING, revisionHistoryLimit=10, progressDeadlineSeconds=600),
        {},
    ),
    "ReplicaSet": (f"{APPS}/replicasets", selected(), selected(template=FILLED, replicas=1), {"replicas": 0}),
    "StatefulSet": (
        STATEFUL_SETS,
        selected(serviceName="s"),
        selected(
            template=FILLED,
            replicas=1,
            serviceName="s",
            podManagementPolicy="OrderedReady",
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            revisionHistoryLimit=10,
            persistentVolumeClaimRetentionPolicy=KEPT,
        ),
        {"replicas": 0, "availableReplicas": 0},
    ),
    "DaemonSet": (
        DAEMON_SETS,
        selected(),
        selected(
            template=FILLED,
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            revisionHistoryLimit=10,
        ),
        dict.fromkeys(("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0),
    ),
    "HorizontalPodAutoscaler": (
        AUTOSCALERS,
        scaled(),
        scaled(**LIMITS, metrics=[CPU]),
        {"desiredReplicas": 0, "currentMetrics": None},
    ),
    "NetworkPolicy": (
        POLICIES,
        {"podSelector": {}, "egress": [{"ports": [{"port": 1}]}]},
        {
            "podSelector": {},
            "egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}],
            "policyTypes": ["Ingress", "Egress"],
        },
        None,
    ),
    "PodDisruptionBudget": (
        BUDGETS,
        {"minAvailable": 1, "selector": SELECTOR},
        {"minAvailable": 1, "selector": SELECTOR},
        dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0),
    ),
    "ResourceQuota": (QUOTAS, {"hard": {"cpu": "1000m"}}, {"hard": {"cpu": "1"}}, {}),
    "CronJob": (
        CRON_JOBS,
        {"schedule": "0 0 1 jan *", "jobTemplate": {"spec": JOB_SPEC}},
        {
            "schedule": "0 0 1 jan *",
            "jobTemplate": {
                "metadata": {},
                "spec": {"template": {"metadata": {}, "spec": FILLED["spec"] | {"restartPolicy": "Never"}}},
            },
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
        {},
    ),
}


@pytest.mark.parametrize("kind", FILLED_IN)
async def test_what_is_left_out_is_filled_in(ask, kind):
    path, given, expected, status = FILLED_IN[kind]
    said = await ask("POST", f"{path}?dryRun=All", named(spec=given))

    assert said.status == 201, said
    assert (said.body["kind"], said.body["spec"], said.body.get("status")) == (kind, expected, status)


async def test_the_selector_of_a_deployment_stays(ask):
    await ask("POST", DEPLOYMENTS, named(spec=selected()))
    changed = copy.deepcopy(selected(selector={"matchLabels": {"c": "d"}}))
    changed["template"]["metadata"]["labels"]["c"] = "d"
    said = await ask("PUT", f"{DEPLOYMENTS}/x", named(spec=changed))

    assert said.causes == {("spec.selector", 'Invalid value: {"matchLabels":{"c":"d"}}: field is immutable')}


async def test_a_deployment_is_scaled_through_its_scale(ask):
    await ask("POST", DEPLOYMENTS, named(spec=selected()))
    scale = (await ask("GET", f"{DEPLOYMENTS}/x/scale")).body
    down = await ask("PATCH", f"{DEPLOYMENTS}/x/scale", {"spec": {"replicas": 0}}, MERGE)
    refused = await ask("PATCH", f"{DEPLOYMENTS}/x/scale", {"spec": {"replicas": -1}}, MERGE)
    stored = (await ask("GET", f"{DEPLOYMENTS}/x")).body

    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0, "selector": "a=b"})
    assert (down.body["spec"], stored["spec"]["replicas"], stored["metadata"]["generation"]) == ({}, 0, 2)
    assert refused.body["message"] == (
        'Scale.autoscaling "x" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )


@pytest.mark.parametrize(("path", "spec"), [(DEPLOYMENTS, selected()), (POLICIES, {"podSelector": {}})])
async def test_put_makes_no_object_that_is_not_there(ask, path, spec):
    assert (await ask("PUT", f"{path}/nope", named("nope", spec=spec))).status == 404


async def test_a_budget_is_only_overwritten_by_who_has_seen_it(ask):
    await ask("POST", BUDGETS, named(spec={"minAvailable": 1}))
    said = await ask("PUT", f"{BUDGETS}/x", named(spec={"minAvailable": 2}))

    assert said.causes == {("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")}


async def test_labels_of_an_endpoint_slice_count_as_its_content(ask):
    endpoints = [{"addresses": ["192.0.2.1"]}]
    made = await ask("POST", SLICES, named(addressType="IPv4", endpoints=endpoints, ports=[{"port": 80}]))
    labelled = await ask("PATCH", f"{SLICES}/x", {"metadata": {"labels": {"x": "y"}}}, MERGE)

    assert made.body["endpoints"] == [{"addresses": ["192.0.2.1"], "conditions": {}}]
    assert made.body["ports"] == [{"name": "", "protocol": "TCP", "port": 80}]
    assert [said.body["metadata"]["generation"] for said in (made, labelled)] == [1, 2]


ROWS = {
    "deployments": (DEPLOYMENTS, selected(), ["0/1", 0, 0, "c", "i", "a=b"]),
    "cronjobs": (
        CRON_JOBS,
        {"schedule": "@daily", "suspend": True, "jobTemplate": {"spec": JOB_SPEC}},
        ["@daily", "<none>", "True", 0, "<none>", "c", "i", "<none>"],
    ),
    "horizontalpodautoscalers": (AUTOSCALERS, scaled(), ["Deployment/d", "cpu: <unknown>/80%", "1", 3, 0]),
    "networkpolicies": (POLICIES, {"podSelector": {}}, ["<none>"]),
    "poddisruptionbudgets": (BUDGETS, {"minAvailable": "20%"}, ["20%", "N/A", 0]),
}


@pytest.mark.parametrize("plural", ROWS)
async def test_tables_show_what_matters_of_a_kind(ask, plural):
    path, spec, cells = ROWS[plural]
    await ask("POST", path, named(spec=spec))
    table = (await ask("GET", path, accept=TABLE)).body
    ages = [index for index, column in enumerate(table["columnDefinitions"]) if column["name"] == "Age"]
    (row,) = [row["cells"] for row in table["rows"] if row["cells"][0] == "x"]

    assert [cell for index, cell in enumerate(row) if index not in (0, *ages)] == cells


async def test_who_sends_something_invalid_is_told_so_though_the_name_is_taken(ask):
    await ask("POST", BUDGETS, named(spec={"minAvailable": 1}))

    assert (await ask("POST", BUDGETS, named(spec={"minAvailable": "x"}))).status == 422
    assert (await ask("POST", BUDGETS, named(spec={"minAvailable": 1}))).status == 409
