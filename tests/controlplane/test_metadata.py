"""Metadata of built-in kinds: what is refused, and where it is said."""

import pytest

MAPS = "/api/v1/namespaces/{ns}/configmaps?dryRun=All"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
OWNERS = "metadata.ownerReferences"
WRONG = {
    "a finalizer of nobody": (
        {"finalizers": ["foo"]},
        {
            (
                "metadata.finalizers[0]",
                'Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified',
            )
        },
    ),
    "an owner that is nobody": (
        {"ownerReferences": [{}]},
        {
            (f"{OWNERS}.apiVersion", 'Invalid value: "": version must not be empty'),
            (f"{OWNERS}.kind", 'Invalid value: "": must not be empty'),
            (f"{OWNERS}.name", 'Invalid value: "": must not be empty'),
            (f"{OWNERS}.uid", 'Invalid value: "": must not be empty'),
        },
    ),
    "an owner of no version": (
        {"ownerReferences": [OWNER | {"apiVersion": "a/b/c"}]},
        {(f"{OWNERS}.apiVersion", 'Invalid value: "a/b/c": version must not be empty')},
    ),
}


@pytest.mark.parametrize("case", WRONG)
async def test_metadata_that_means_nothing_is_refused(ask, case):
    metadata, expected = WRONG[case]
    said = await ask("POST", MAPS, {"metadata": {"name": "x", **metadata}})

    assert said.causes == expected


async def test_events_own_nothing(ask):
    said = await ask("POST", MAPS, {"metadata": {"name": "x", "ownerReferences": [OWNER | {"kind": "Event"}]}})
    ((field, message),) = said.causes

    assert field == OWNERS
    assert message.endswith(": /v1, Kind=Event is disallowed from being an owner")


async def test_a_configuration_that_does_not_fit_its_kind_fails_where_it_is_read(ask):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": 1}}
    path = "/api/v1/namespaces/{ns}/configmaps/x?fieldManager=m"
    said = await ask("PATCH", path, body, "application/apply-patch+yaml")

    text = ".data.a: expected string, got &value.valueUnstructured{Value:1}"
    assert (said.status, said.body["message"].endswith(text)) == (500, True)
