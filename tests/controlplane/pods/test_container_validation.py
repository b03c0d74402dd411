"""What the API server refuses of containers, and how it says so: recorded from the real one, with KTRAIN_RECORD=1."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
PARTS = {file.stem: yaml.safe_load(file.read_text()) for file in sorted((HERE / "containers").glob("*.yaml"))}
CASES = [(part, name) for part, cases in PARTS.items() for name in cases]
PODS = "/api/v1/namespaces/{ns}/pods?dryRun=All"
TEMPLATES = "/api/v1/namespaces/{ns}/podtemplates?dryRun=All"


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


def in_short(said):
    """How a server answered: its complaints, or what it would store."""
    if said.status == 201:
        made = {"status": 201, "containers": _containers(said.body.get("template", said.body)["spec"])}
        return {**made, "class": said.body["status"]["qosClass"]} if "status" in said.body else made
    causes = said.body.get("details", {}).get("causes", ())
    return {"status": said.status, "causes": sorted([one["field"], one["reason"], one["message"]] for one in causes)}


def _containers(spec):
    """Return the containers; what a service account adds to each is another matter."""
    groups = {group: spec[group] for group in ("initContainers", "containers") if group in spec}
    text = json.dumps(groups)
    account = (
        r', \{"name": "kube-api-access-\w+", [^}]*\}|"volumeMounts": \[\{"name": "kube-api-access-\w+", [^}]*\}\], '
    )
    return json.loads(re.sub(account, "", text))


def check(part, name, kind, plane, seen):
    file = HERE / "recorded" / f"{part}.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    if os.environ.get("KTRAIN_RECORD") and plane.is_real:
        known |= {f"{name} {kind}": seen}
        lines = [f"{json.dumps(key)}: {json.dumps(known[key], sort_keys=True)}" for key in sorted(known)]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    assert seen == known[f"{name} {kind}"]


@pytest.mark.parametrize(("part", "name"), CASES, ids="/".join)
async def test_a_pod_is_created_or_refused(part, name, ask, control_plane):
    said = await ask("POST", PODS, a_pod(PARTS[part][name]))

    check(part, name, "pod", control_plane, in_short(said))


@pytest.mark.parametrize(("part", "name"), CASES, ids="/".join)
async def test_a_template_is_created_or_refused(part, name, ask, control_plane):
    template = {"spec": a_pod(PARTS[part][name])["spec"]}
    body = {"metadata": {"name": "p"}, "template": template}
    said = await ask("POST", TEMPLATES, body)

    check(part, name, "template", control_plane, in_short(said))
