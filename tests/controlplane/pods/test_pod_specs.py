"""What the API server refuses and warns of in the specs of pods and templates, and what it fills in: recorded."""

from pathlib import Path

import pytest
import yaml

from .recording import check, in_short

PARTS = {file.stem: yaml.safe_load(file.read_text()) for file in sorted(Path(__file__).parent.glob("specs/*.yaml"))}
CASES = [(part, name) for part, cases in PARTS.items() for name in cases]
CONTAINERS = [{"name": "c", "image": "i:1"}]
SELECTED = {"matchLabels": {"a": "b"}}
WRONG = {
    "metadata": {"labels": {"a": "b", "x y": "z"}, "annotations": {"p q": "r", "kubernetes.io/config.mirror": "x"}},
    "spec": {"containers": CONTAINERS, "dnsPolicy": "None", "volumes": [{"name": "v", "secret": {}}]},
}
WARNED = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}},
    "spec": {
        "containers": CONTAINERS,
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "terminationGracePeriodSeconds": -1,
    },
}
TEMPLATES = {"wrong": WRONG, "warned": WARNED}
APPS = "/apis/apps/v1/namespaces/{ns}"
BATCH = "/apis/batch/v1/namespaces/{ns}"
KINDS = {
    "Deployment": (f"{APPS}/deployments", lambda template: {"selector": SELECTED, "template": template}),
    "ReplicaSet": (f"{APPS}/replicasets", lambda template: {"selector": SELECTED, "template": template}),
    "DaemonSet": (f"{APPS}/daemonsets", lambda template: {"selector": SELECTED, "template": template}),
    "StatefulSet": (f"{APPS}/statefulsets", lambda template: {"selector": SELECTED, "template": template}),
    "ReplicationController": (
        "/api/v1/namespaces/{ns}/replicationcontrollers",
        lambda template: {"selector": SELECTED["matchLabels"], "template": template},
    ),
    "Job": (f"{BATCH}/jobs", lambda template: {"template": _ending(template)}),
    "CronJob": (
        f"{BATCH}/cronjobs",
        lambda template: {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _ending(template)}}},
    ),
}


def _ending(template):
    return {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}


def a_template(part, name):
    """Build the template of a case: fields of the spec, and `metadata`."""
    case = dict(PARTS[part][name])
    return {"metadata": case.pop("metadata", {}), "spec": {"containers": CONTAINERS, **case}}


@pytest.mark.parametrize(("part", "name"), CASES, ids=map("/".join, CASES))
async def test_a_pod_is_created_or_refused(part, name, ask, control_plane):
    pod = a_template(part, name)
    pod["metadata"] = {"name": "p", **pod["metadata"]}
    said = await ask("POST", "/api/v1/namespaces/{ns}/pods?dryRun=All", pod)

    check(f"spec-{part}", f"{name} pod", control_plane, in_short(said))


@pytest.mark.parametrize(("part", "name"), CASES, ids=map("/".join, CASES))
async def test_a_template_is_created_or_refused(part, name, ask, control_plane):
    body = {"metadata": {"name": "p"}, "template": a_template(part, name)}
    said = await ask("POST", "/api/v1/namespaces/{ns}/podtemplates?dryRun=All", body)
    if said.status == 201:
        said = said._replace(body=said.body["template"])

    check(f"spec-{part}", f"{name} template", control_plane, in_short(said))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_said_of_a_template_is_said_of_every_kind_that_has_one(kind, template, ask, control_plane):
    path, spec = KINDS[kind]
    name = "plain" if kind == "StatefulSet" else "dotted.name"
    body = {"metadata": {"name": name}, "spec": spec(TEMPLATES[template])}
    said = await ask("POST", f"{path}?dryRun=All", body)

    check("kinds", f"{kind} {template}", control_plane, in_short(said))


async def test_of_a_change_only_those_who_change_the_template_are_warned(ask):
    path, spec = KINDS["Deployment"]
    await ask("POST", path, {"metadata": {"name": "d"}, "spec": spec(WARNED)})

    patch = "application/merge-patch+json"
    labelled = await ask("PATCH", f"{path}/d", {"metadata": {"labels": {"q": "r"}}}, patch)
    changed = await ask("PATCH", f"{path}/d", {"spec": {"template": {"spec": {"hostname": "h"}}}}, patch)

    assert (labelled.status, labelled.warnings) == (200, "")
    assert changed.status == 200
    assert "beta.kubernetes.io/os" in changed.warnings
