"""What objects hold before anybody writes them, and that nobody owns it."""

import pytest

from ktrain.api.core import JOBS, untyped
from ktrain.api.trainer import TRAINING_RUNTIMES


@pytest.fixture
def create(control_plane):
    """Create an object; returns it as the server has it."""

    async def make(resource, spec, **metadata):
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **spec}
        body["metadata"] = {"name": "x", "namespace": control_plane.namespace, **metadata}
        return await control_plane.client().create(untyped(resource), body)

    return make


def owned(obj):
    (entry,) = [entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == "test"]
    return entry["fieldsV1"]


async def test_structs_that_are_always_there_belong_to_nobody(create):
    container = {"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    made = await create(JOBS, {"spec": {"suspend": True, "template": template}}, annotations={"a": "b"})

    fields = owned(made)
    assert fields["f:metadata"] == {"f:annotations": {".": {}, "f:a": {}}}
    for path in (("f:spec",), ("f:spec", "f:template"), ("f:spec", "f:template", "f:spec")):
        below = fields
        for name in path:
            below = below[name]
        assert "." not in below, path
    assert "f:metadata" not in fields["f:spec"]["f:template"]
    (item,) = fields["f:spec"]["f:template"]["f:spec"]["f:containers"].values()
    assert item["."] == {}
    assert item["f:resources"] == {".": {}, "f:limits": {".": {}, "f:cpu": {}}}


async def test_of_custom_kinds_only_the_metadata_is_typed(create):
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"metadata": {"labels": {}}, "spec": {"replicatedJobs": []}}}
    made = await create(TRAINING_RUNTIMES, {"spec": spec}, labels={}, finalizers=[], ownerReferences=[])

    assert not {"labels", "finalizers", "ownerReferences"} & set(made["metadata"])
    assert made["spec"]["template"] == {"metadata": {"labels": {}}, "spec": {"replicatedJobs": []}}
