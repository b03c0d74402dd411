"""What the API server refuses of a Job, and how it says so: recorded from the real one, with KTRAIN_RECORD=1."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from ktrain.api.core import JOBS, untyped
from ktrain.api.meta import Key
from ktrain.framework.errors import ApiError

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "validation.yaml").read_text())
RECORDS = HERE / "recorded.validation.json"
ANY_JOBS = untyped(JOBS)
OTHER = "example.com/nobody"
"""Named as the manager, so that no controller touches the Jobs."""


def recorded():
    return json.loads(RECORDS.read_text()) if RECORDS.exists() else {}


def a_job(plane, name, given):
    given = dict(given)
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **given.pop("podSpec", {})}
    template = given.pop("template", {})
    meta = {"name": given.pop("name", name), "namespace": plane.namespace}
    spec = {"managedBy": OTHER, **given, "template": {**template, "spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


async def answer_to(call):
    """Make a request; returns how it was refused, or None."""
    try:
        await call
    except ApiError as error:
        status = error.status
        causes = [[cause.field, cause.reason, _plain(cause.message)] for cause in status.details.causes]
        return {"code": status.code, "message": _plain(status.message), "causes": causes}
    return None


def _plain(text):
    """Values are shown as Go holds them, which is not how they were sent."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)
    shown = r"Invalid value: (\{.*?\}|\[.*?\]|null|\"[^\"]*\"|-?\d+): (?=[a-z`A-Z(])"
    return re.sub(shown, lambda m: "Invalid value: {...}: " if m[1][0] in "{[n" else m[0], text)


def check(kind, name, plane, seen):
    if os.environ.get("KTRAIN_RECORD") and plane.is_real:
        RECORDS.write_text(json.dumps(recorded() | {f"{kind} {name}": seen}, indent=1, sort_keys=True) + "\n")

    assert seen == recorded()[f"{kind} {name}"]


@pytest.mark.parametrize("name", CASES["create"])
async def test_a_job_is_created_or_refused(name, control_plane):
    client = control_plane.client()
    body = a_job(control_plane, name, CASES["create"][name])

    check("create", name, control_plane, await answer_to(client.create(ANY_JOBS, body)))


@pytest.mark.parametrize("name", CASES["update"])
async def test_a_job_is_changed_or_refused(name, control_plane):
    client, case = control_plane.client(), CASES["update"][name]
    key = Key(control_plane.namespace, name)
    await client.create(ANY_JOBS, a_job(control_plane, name, case["spec"]))
    if "status" in case:
        await client.patch(ANY_JOBS, key, {"status": case["status"]}, subresource="status")

    check("update", name, control_plane, await answer_to(client.patch(ANY_JOBS, key, {"spec": case["to"]})))


@pytest.mark.parametrize("name", CASES["status"])
async def test_a_status_is_written_or_refused(name, control_plane):
    client, case = control_plane.client(), CASES["status"][name]
    key = Key(control_plane.namespace, name)
    await client.create(ANY_JOBS, a_job(control_plane, name, case["spec"]))
    await client.patch(ANY_JOBS, key, {"status": case["before"]}, subresource="status")
    patch = {"status": case["to"]}

    check("status", name, control_plane, await answer_to(client.patch(ANY_JOBS, key, patch, subresource="status")))
