"""Applies that say which object they are about: by its UID, by its version, or by one that none has: only a new one."""

import pytest

from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.framework.errors import ApiError, Conflict, Invalid, ServerError

POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}
KINDS = {
    "built in": (untyped(CONFIG_MAPS), {"data": {"a": "1"}}),
    "custom": (
        untyped(JOBSETS),
        {"spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": POD}}}]}},
    ),
}
OTHER = "11111111-2222-3333-4444-555555555555"
IS_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
IS_NO_NUMBER = 'strconv.ParseUint: parsing "x": invalid syntax'
WHERE_NONE_IS = [
    ({"resourceVersion": "1"}, None, ""),
    ({"resourceVersion": "0"}, None, ""),
    ({"resourceVersion": "x"}, ServerError, IS_NO_NUMBER),
    ({"uid": OTHER}, Conflict, f"uid mismatch: the provided object specified uid {OTHER}, and no existing object was"),
]
WHERE_ONE_IS = [
    ({"resourceVersion": "1"}, Conflict, IS_MODIFIED),
    ({"resourceVersion": "x"}, ServerError, IS_NO_NUMBER),
    ({"uid": OTHER}, Invalid, f'metadata.uid: Invalid value: "{OTHER}": field is immutable'),
    ({"uid": OTHER, "resourceVersion": "1"}, Conflict, IS_MODIFIED),
    ({"uid": True}, None, ""),
    ({"resourceVersion": True}, None, ""),
]


@pytest.fixture(params=KINDS)
def applying(request, control_plane):
    """`await apply(name, uid=...)`: what it led to, and the error's message if it was refused."""
    resource, content = KINDS[request.param]

    async def apply(name, manager="mine", **metadata):
        body = {"apiVersion": resource.api_version, "kind": resource.kind} | content
        body |= {"metadata": {"name": name, "namespace": control_plane.namespace} | metadata}
        try:
            return await control_plane.client(manager).apply(resource, body), None, ""
        except ApiError as error:
            return None, type(error), error.status.message

    return apply


@pytest.mark.parametrize(("guard", "refusal", "words"), WHERE_NONE_IS)
async def test_an_apply_creates_what_is_missing_unless_it_names_a_uid(applying, guard, refusal, words):
    made, refused, message = await applying("new", **guard)

    assert (refused, words in message) == (refusal, True)
    if made:
        (entry,) = made["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("mine", "Apply")
        assert "f:metadata" not in entry["fieldsV1"]


@pytest.mark.parametrize(("guard", "refusal", "words"), WHERE_ONE_IS)
async def test_an_apply_over_another_object_than_it_names_is_refused_also_by_force(applying, guard, refusal, words):
    theirs, *_ = await applying("taken", "theirs")
    named = {field: theirs["metadata"][field] if value is True else value for field, value in guard.items()}
    written, refused, message = await applying("taken", labels={"a": "mine"}, **named)

    assert (refused, words in message) == (refusal, True)
    assert written is None or written["metadata"]["uid"] == theirs["metadata"]["uid"]


async def test_a_version_of_zero_is_none_where_a_kind_can_do_without(applying, request):
    await applying("taken", "theirs")
    _, refused, message = await applying("taken", labels={"a": "mine"}, resourceVersion="0")

    is_custom = "custom" in request.node.name
    assert refused is (Invalid if is_custom else None)
    assert ("metadata.resourceVersion: Invalid value: 0: must be specified for an update" in message) is is_custom
