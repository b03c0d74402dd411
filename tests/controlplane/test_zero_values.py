"""Zero values: fields that vanish, fields that stay, and structs that nobody owns because they are always there."""

import pytest

from ktrain.api.core import CONFIG_MAPS, JOBS, PODS, untyped
from ktrain.api.meta import Key
from ktrain.api.trainer import TRAINING_RUNTIMES


@pytest.fixture
def read(control_plane):
    """Read an object as it is sent, without a type."""

    async def get(resource, name):
        return await control_plane.client().get(untyped(resource), name, control_plane.namespace)

    return get


@pytest.fixture
def create(control_plane, read):
    """Create an object and read it back."""

    async def make(resource, spec, **metadata):
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **spec}
        body["metadata"] = {"name": "x", "namespace": control_plane.namespace, **metadata}
        await control_plane.client().create(untyped(resource), body)
        return await read(resource, "x")

    return make


def owned(obj):
    (entry,) = [entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == "test"]
    return entry["fieldsV1"]


async def test_empty_optional_fields_of_built_in_kinds_vanish(create):
    made = await create(
        PODS,
        {
            "spec": {
                "schedulingGates": [{"name": "test/never"}],
                "hostNetwork": False,
                "nodeSelector": {},
                "affinity": {},
                "activeDeadlineSeconds": None,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "c",
                        "image": "none",
                        "args": [],
                        "env": [{"name": "A", "value": ""}],
                        "workingDir": "",
                        "stdin": False,
                        "securityContext": {},
                        "resources": {"limits": {}},
                    }
                ],
            }
        },
        labels={},
        annotations={},
    )

    spec = made["spec"]
    assert not {"hostNetwork", "nodeSelector", "activeDeadlineSeconds"} & set(spec)
    assert (spec["affinity"], spec["volumes"][0]["emptyDir"]) == ({}, {}), "pointers stay, and so do empty structs"
    assert (spec["automountServiceAccountToken"], spec["terminationGracePeriodSeconds"]) == (False, 0)
    (container,) = spec["containers"]
    assert not {"args", "workingDir", "stdin"} & set(container)
    assert container["env"] == [{"name": "A"}]
    assert (container["securityContext"], container["resources"]) == ({}, {})
    assert not {"labels", "annotations"} & set(made["metadata"])


async def test_values_of_maps_are_no_fields(create):
    made = await create(CONFIG_MAPS, {"data": {"empty": ""}, "binaryData": {}, "immutable": False}, labels={"a": ""})

    assert made["data"] == {"empty": ""}
    assert made["metadata"]["labels"] == {"a": ""}
    assert made["immutable"] is False
    assert "binaryData" not in made


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


async def test_a_patch_that_sets_zero_changes_nothing(create, control_plane, read):
    before = await create(CONFIG_MAPS, {"data": {"a": "1"}})
    client = control_plane.client()
    await client.patch(CONFIG_MAPS, Key(control_plane.namespace, "x"), {"binaryData": {}, "metadata": {"labels": {}}})

    assert await read(CONFIG_MAPS, "x") == before


async def test_of_custom_kinds_only_the_metadata_is_typed(create):
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"metadata": {"labels": {}}, "spec": {"replicatedJobs": []}}}
    made = await create(TRAINING_RUNTIMES, {"spec": spec}, labels={}, finalizers=[], ownerReferences=[])

    assert not {"labels", "finalizers", "ownerReferences"} & set(made["metadata"])
    assert made["spec"]["template"] == {"metadata": {"labels": {}}, "spec": {"replicatedJobs": []}}
