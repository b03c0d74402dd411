"""What the kinds that are only stored refuse, and in which words."""

import pytest

from .stored import (
    AUTOSCALERS,
    BUDGETS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    INGRESSES,
    JOB_SPEC,
    POLICIES,
    QUOTAS,
    STATEFUL_SETS,
    TEMPLATE,
    named,
    scaled,
    selected,
)

SOURCES = '"ContainerResource", "External", "Object", "Pods", "Resource"'
UNBALANCED = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
REFUSED = {
    "a selector that misses the template": (
        DEPLOYMENTS,
        selected(selector={"matchLabels": {"q": "r"}}),
        {("spec.template.metadata.labels", 'Invalid value: {"a":"b"}: `selector` does not match template `labels`')},
    ),
    "an empty selector": (
        DEPLOYMENTS,
        selected(selector={}),
        {("spec.selector", "Invalid value: {}: empty selector is invalid for deployment")},
    ),
    "a deployment of pods that end": (
        DEPLOYMENTS,
        selected(template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}),
        {("spec.template.spec.restartPolicy", 'Unsupported value: "Never": supported values: "Always"')},
    ),
    "a strategy that replaces nothing": (
        DEPLOYMENTS,
        selected(strategy=UNBALANCED),
        {("spec.strategy.rollingUpdate.maxUnavailable", "Invalid value: 0: may not be 0 when `maxSurge` is 0")},
    ),
    "a deadline before pods can be ready": (
        DEPLOYMENTS,
        selected(minReadySeconds=600),
        {("spec.progressDeadlineSeconds", "Invalid value: 600: must be greater than minReadySeconds")},
    ),
    "half of a daemon set's rolling update": (
        DAEMON_SETS,
        selected(updateStrategy={"rollingUpdate": {"maxSurge": 1}}),
        {
            (
                "spec.updateStrategy.rollingUpdate.maxSurge",
                "Invalid value: 1: may not be set when maxUnavailable is non-zero",
            )
        },
    ),
    "a claim without a size": (
        STATEFUL_SETS,
        selected(volumeClaimTemplates=[{"metadata": {"name": "v"}}]),
        {
            (
                "spec.volumeClaimTemplates[0].spec.accessModes",
                "Required value: at least 1 access mode is required",
            ),
            ("spec.volumeClaimTemplates[0].spec.resources[storage]", "Required value"),
        },
    ),
    "a minute of 61": (
        CRON_JOBS,
        {"schedule": "61 * * * *", "jobTemplate": {"spec": JOB_SPEC}},
        {("spec.schedule", 'Invalid value: "61 * * * *": end of range (61) above maximum (59): 61')},
    ),
    "a schedule of one word": (
        CRON_JOBS,
        {"schedule": "daily", "jobTemplate": {"spec": JOB_SPEC}},
        {("spec.schedule", 'Invalid value: "daily": expected exactly 5 fields, found 1: [daily]')},
    ),
    "a time zone nobody lives in": (
        CRON_JOBS,
        {"schedule": "@daily", "timeZone": "Foo/Bar", "jobTemplate": {"spec": JOB_SPEC}},
        {("spec.timeZone", 'Invalid value: "Foo/Bar": unknown time zone Foo/Bar')},
    ),
    "more at least than at most": (
        AUTOSCALERS,
        scaled(minReplicas=5),
        {("spec.maxReplicas", "Invalid value: 3: must be greater than or equal to `minReplicas`")},
    ),
    "a metric of no kind": (
        AUTOSCALERS,
        scaled(metrics=[{"type": "Foo"}]),
        {("spec.metrics[0].type", f'Unsupported value: "Foo": supported values: {SOURCES}')},
    ),
    "a target in no group": (
        AUTOSCALERS,
        scaled(scaleTargetRef={"kind": "Deployment", "name": "d"}),
        {("spec.scaleTargetRef.apiVersion", 'Invalid value: "": apiVersion must specify API group')},
    ),
    "a peer that is nobody": (
        POLICIES,
        {"podSelector": {}, "ingress": [{"from": [{}]}]},
        {("spec.ingress[0].from[0]", "Required value: must specify a peer")},
    ),
    "an exception from elsewhere": (
        POLICIES,
        {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]},
        {("spec.egress[0].to[0].ipBlock.except[0]", 'Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`')},
    ),
    "a path that leads nowhere": (
        INGRESSES,
        {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {}}]}}]},
        {("spec.rules[0].http.paths[0].backend", 'Invalid value: "": resource or service backend is required')},
    ),
    "more than all pods": (
        BUDGETS,
        {"minAvailable": "101%"},
        {("spec.minAvailable", 'Invalid value: "101%": must not be greater than 100%')},
    ),
    "half a pod": (
        QUOTAS,
        {"hard": {"pods": "1.5"}},
        {("spec.hard[pods]", 'Invalid value: "1500m": must be an integer')},
    ),
    "a scope that cannot see what is counted": (
        QUOTAS,
        {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
        {("spec.scopes", 'Invalid value: ["BestEffort"]: unsupported scope applied to resource')},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_cannot_work_is_refused_with_its_field(ask, case):
    path, spec, expected = REFUSED[case]
    said = await ask("POST", f"{path}?dryRun=All", named(spec=spec))

    assert said.status == 422, said
    assert said.causes == expected
