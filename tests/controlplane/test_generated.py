"""kubernetes_asyncio's generated API over our client, on both back ends."""

import importlib.util
import subprocess
import sys
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiException, BatchV1Api, CoreV1Api, V1ConfigMap, V1ObjectMeta, V1OwnerReference
from kubernetes_asyncio.client.api_client import ApiClient

from ktrain.framework import Key, Resource, generated
from ktrain.framework.cache.cache import Cache
from ktrain.framework.errors import ApplyConflict, ConfigError, Conflict
from ktrain.framework.writes import recording

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, type=V1ConfigMap)
"""ConfigMaps as models."""


@pytest.fixture
def core(control_plane):
    return control_plane.client("generated").typed(CoreV1Api)


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


# Models in calls of the client itself


@pytest.fixture
def model(control_plane):
    """A ConfigMap to write."""

    def make(data, **metadata):
        return V1ConfigMap(metadata=V1ObjectMeta(name="c", namespace=control_plane.namespace, **metadata), data=data)

    return make


async def test_a_model_is_created_read_updated_and_applied(control_plane, model):
    client = control_plane.client("mine")
    with recording() as writes:
        created = await client.create(CONFIG_MAPS, model({"k": "v"}, labels={"a": "b"}))
    read = await client.get(CONFIG_MAPS, "c", control_plane.namespace)

    assert isinstance(created, V1ConfigMap)
    assert (created.api_version, created.kind, created.data) == ("v1", "ConfigMap", {"k": "v"})
    assert [(one.key.name, one.version) for one in writes] == [("c", int(created.metadata.resource_version))]
    assert read == created
    assert abs((datetime.now(UTC) - read.metadata.creation_timestamp).total_seconds()) < 600

    read.data = {"k": "w"}
    assert (await client.update(CONFIG_MAPS, read)).data == {"k": "w"}
    with pytest.raises(Conflict):
        await client.update(CONFIG_MAPS, created)

    other = control_plane.client("other")
    with pytest.raises(ApplyConflict):
        await other.apply(CONFIG_MAPS, model({"k": "x"}), force=False)
    applied = await other.apply(CONFIG_MAPS, model({"l": "x"}))
    assert applied.data == {"k": "w", "l": "x"}
    patched = await client.patch(CONFIG_MAPS, Key(control_plane.namespace, "c"), {"data": {"k": None}})
    assert patched.data == {"l": "x"}


async def test_models_are_listed_and_watched(control_plane, model):
    client = control_plane.client()
    created = await client.create(CONFIG_MAPS, model({"k": "v"}, labels={"a": "b"}))
    page = await client.list(CONFIG_MAPS, control_plane.namespace, label_selector="a=b")
    await client.delete(CONFIG_MAPS, Key(control_plane.namespace, "c"), uid=created.metadata.uid)

    assert [(one.kind, one.metadata.name) for one in page.items] == [("ConfigMap", "c")]
    watch = client.watch(
        CONFIG_MAPS, control_plane.namespace, label_selector="a=b", resource_version=page.resource_version
    )
    async with aclosing(watch) as events:
        async for event in events:
            assert (event.type, event.object.metadata.uid) == ("DELETED", created.metadata.uid)
            break


async def test_lists_and_times_inside_a_model_are_written(control_plane, model):
    client, when = control_plane.client(), datetime(2026, 5, 1, 12, tzinfo=UTC)
    owner = V1OwnerReference(api_version="v1", kind="Pod", name="p", uid="u", controller=False)
    created = await client.create(
        CONFIG_MAPS, model({}, owner_references=[owner], annotations={"at": when.isoformat()})
    )

    assert created.metadata.owner_references[0].name == "p"
    assert created.data is None


def test_an_informer_of_models_is_refused_with_what_to_do(control_plane):
    cache = Cache(control_plane.client(), control_plane.env)

    with pytest.raises(ValueError, match=r"V1ConfigMap are too slow .* declare the fields that you read as a Struct"):
        cache.informer(CONFIG_MAPS)


def test_what_uses_no_model_imports_none():
    script = (
        "import sys, ktrain.framework as f; from ktrain.framework import Cache, Client, Operator, generated;"
        "print([name for name in sys.modules if name.startswith('kubernetes_asyncio')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "[]\n"


EXAMPLE = Path(__file__).parents[2] / "examples" / "framework" / "typed.py"


async def test_the_example_limits_pods_and_reports_them(control_plane, pod_template):
    spec = importlib.util.spec_from_file_location("typed_example", EXAMPLE)
    typed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(typed)
    client, namespace = control_plane.client("typed-example"), control_plane.namespace
    await typed.limit_pods(client, namespace, 10)
    pods = client.typed(CoreV1Api)
    await pods.create_namespaced_pod(namespace, {"metadata": {"name": "p"}, **pod_template})

    assert await typed.report(client, namespace) == ["p on no node", "1 of 10 pods"]
    assert (await typed.limit_pods(client, namespace, 5)).spec.hard == {"pods": "5"}
