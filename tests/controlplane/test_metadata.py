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


JOB = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{ns}/trainjobs/job"
FOREIGN = "11111111-1111-1111-1111-111111111111"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"


@pytest.mark.parametrize("media", [APPLY, MERGE])
@pytest.mark.parametrize(
    "metadata",
    [
        {"uid": FOREIGN},
        {"deletionTimestamp": "2020-01-01T00:00:00Z"},
        {"deletionGracePeriodSeconds": 4},
        {"labels": {"a": "b"}},
    ],
    ids=lambda metadata: next(iter(metadata)),
)
async def test_what_status_says_of_the_metadata_of_a_custom_object_is_passed_over(
    ask, create_train_job, metadata, media
):
    await create_train_job()
    created = (await ask("GET", JOB)).body
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", **metadata},
        "status": {"jobsStatus": []},
    }
    said = await ask("PATCH", f"{JOB}/status?fieldManager=m", body, media)

    assert said.status == 200
    kept = {name: value for name, value in said.body["metadata"].items() if name in metadata}
    assert kept == {name: created["metadata"][name] for name in metadata if name in created["metadata"]}


async def test_an_update_of_an_object_that_is_another_by_now_says_so_whatever_version_it_names(ask, create_train_job):
    await create_train_job()
    body = (await ask("GET", JOB)).body
    body = {**body, "metadata": {"name": "job", "namespace": body["metadata"]["namespace"], "uid": FOREIGN}}
    said = await ask("PUT", JOB, body)

    assert (said.status, said.body["reason"]) == (409, "Conflict")
    where = f"Key: /registry/trainer.kubeflow.org/trainjobs/{body['metadata']['namespace']}/job"
    assert (
        f"{where}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {FOREIGN}"
        in said.body["message"]
    )
