"""kubernetes_asyncio's generated API over our client, on both back ends."""

import pytest
from kubernetes_asyncio.client import ApiException, BatchV1Api, CoreV1Api, V1ConfigMap, V1ObjectMeta
from kubernetes_asyncio.client.api_client import ApiClient

from ktrain.framework.client.generated import generated
from ktrain.framework.errors import ConfigError
from ktrain.framework.writes import recording


@pytest.fixture
def core(control_plane):
    return CoreV1Api(generated(control_plane.client("generated")))


async def test_models_are_written_and_read(core, control_plane):
    body = V1ConfigMap(metadata=V1ObjectMeta(name="c", labels={"a": "b"}), data={"k": "v"})
    await core.create_namespaced_config_map(control_plane.namespace, body)
    await core.patch_namespaced_config_map(
        "c", control_plane.namespace, {"data": {"k": "w"}}, _content_type="application/merge-patch+json"
    )
    found = await core.list_namespaced_config_map(control_plane.namespace, label_selector="a=b")

    assert [(one.metadata.name, one.data) for one in found.items] == [("c", {"k": "w"})]
    assert {field.manager for field in found.items[0].metadata.managed_fields} == {"generated"}
    await core.delete_namespaced_config_map("c", control_plane.namespace)
    assert (await core.list_namespaced_config_map(control_plane.namespace, label_selector="a=b")).items == []


async def test_a_refusal_is_its_exception_with_our_error_as_the_cause(core, control_plane):
    with pytest.raises(ApiException) as caught:
        await core.read_namespaced_config_map("none", control_plane.namespace)

    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    assert 'configmaps \\"none\\" not found' in caught.value.body
    assert type(caught.value.__cause__).__name__ == "NotFound"


async def test_writes_are_noted_but_not_those_of_a_dry_run(core, control_plane):
    body = V1ConfigMap(metadata=V1ObjectMeta(name="c"))
    with recording() as writes:
        await core.create_namespaced_config_map(control_plane.namespace, body, dry_run="All")
        created = await core.create_namespaced_config_map(control_plane.namespace, body)
        await core.delete_namespaced_config_map("c", control_plane.namespace, dry_run="All")
        await core.delete_namespaced_config_map("c", control_plane.namespace)

    stored, deleted = writes
    assert {(one.plural, one.key.name, one.uid) for one in writes} == {("configmaps", "c", created.metadata.uid)}
    assert (stored.version, deleted.version) == (int(created.metadata.resource_version), 0)


async def test_other_groups_have_their_paths(control_plane):
    jobs = await BatchV1Api(generated(control_plane.client())).list_namespaced_job(control_plane.namespace)

    assert jobs.items == []


async def test_a_stream_is_refused_with_what_to_use_instead(core, control_plane):
    with pytest.raises(ConfigError, match=r"Client\.watch"):
        await core.list_namespaced_pod(control_plane.namespace, watch=True, _preload_content=False)


async def test_it_is_an_api_client_and_opens_nothing(control_plane):
    api = generated(control_plane.client())
    async with api:
        assert isinstance(api, ApiClient)
