"""What the API server refuses of containers, and how it says so: recorded from the real one, with KTRAIN_RECORD=1."""

import json
import re
from pathlib import Path

import pytest
import yaml

from .recording import check, in_short

FILES = sorted(Path(__file__).parent.glob("containers/*.yaml"))
PARTS = {file.stem: yaml.safe_load(file.read_text()) for file in FILES}
CASES = [(part, name) for part, cases in PARTS.items() for name in cases]
PODS = "/api/v1/namespaces/{ns}/pods?dryRun=All"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments?dryRun=All"


def a_pod(case):
    """
    Build the pod of a case: fields of its container `c`, and of others that it names.

    `pod` has fields of the spec; `second`, `init`, `sidecar` and `ephemeral` those of a container of that sort; `many`
    has a number and an item for each field that is a long list.
    """
    case = dict(case)
    spec = dict(case.pop("pod", {}))
    second, init, sidecar, ephemeral = (case.pop(sort, None) for sort in ("second", "init", "sidecar", "ephemeral"))
    for field, (count, item) in case.pop("many", {}).items():
        case[field] = [item] * count
    if sidecar is not None:
        sidecar = {"restartPolicy": "Always", **sidecar}
    groups = {
        "containers": {"c": case, "d": second},
        "initContainers": {"i": init, "s": sidecar},
        "ephemeralContainers": {"e": ephemeral},
    }
    for group, named in groups.items():
        found = [{"name": name, "image": "i:1", **one} for name, one in named.items() if one is not None]
        if found:
            spec.setdefault(group, found)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def answer_on_containers(said):
    """How a server answered: its complaints, or the containers that it would store and the class of the pod."""
    answer = in_short(said)
    if "spec" in answer:
        del answer["spec"]
        answer["containers"] = _containers(said.body["spec"].get("template", said.body)["spec"])
        if "qosClass" in said.body["status"]:
            answer["class"] = said.body["status"]["qosClass"]
    return answer


def _containers(spec):
    """Return the containers; what a service account adds to each is another matter."""
    groups = {group: spec[group] for group in ("initContainers", "containers") if group in spec}
    text = json.dumps(groups)
    mount = r'\{"name": "kube-api-access-\w+", [^}]*\}'
    return json.loads(re.sub(rf', {mount}|"volumeMounts": \[{mount}\], ', "", text))


@pytest.mark.parametrize(("part", "name"), CASES, ids=map("/".join, CASES))
async def test_a_pod_is_created_or_refused(part, name, ask, control_plane):
    said = await ask("POST", PODS, a_pod(PARTS[part][name]))

    check(part, f"{name} pod", control_plane, answer_on_containers(said))


@pytest.mark.parametrize(("part", "name"), CASES, ids=map("/".join, CASES))
async def test_a_template_is_created_or_refused(part, name, ask, control_plane):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": a_pod(PARTS[part][name])["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    said = await ask("POST", DEPLOYMENTS, {"metadata": {"name": "p"}, "spec": spec})

    check(part, f"{name} template", control_plane, answer_on_containers(said))
