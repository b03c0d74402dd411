"""What may change in a pod, and how other changes are refused: recorded from the real server."""

from pathlib import Path

import pytest
import yaml

from .recording import check, in_short

CASES = yaml.safe_load((Path(__file__).parent / "changes.yaml").read_text())
PODS = "/api/v1/namespaces/{ns}/pods"
CONTAINERS = [{"name": "c", "image": "i:1"}]


def parted(fields):
    """Part the fields of a case: those of the spec, and `metadata`."""
    fields = dict(fields)
    metadata = fields.pop("metadata", {})
    return {"metadata": metadata, "spec": fields}


@pytest.mark.parametrize("name", CASES)
async def test_a_pod_changes_or_is_left_as_it_was(name, ask, control_plane):
    was, now = parted(CASES[name]["was"]), parted(CASES[name]["now"])
    was["metadata"] = {**was["metadata"], "name": "p"}
    was["spec"] = {"containers": CONTAINERS, **was["spec"]}
    assert (await ask("POST", PODS, was)).status == 201

    said = await ask("PATCH", f"{PODS}/p", now, "application/merge-patch+json")

    check("changes", name, control_plane, in_short(said))
