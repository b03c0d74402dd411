"""What each server says it serves."""

import pytest

from ktrain.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, JOBS, NAMESPACES, PODS, ConfigMap, untyped
from ktrain.api.jobset import JOBSETS
from ktrain.api.meta import Key, Resource
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework.client.mapper import COOL_DOWN_S, RestMapper
from ktrain.framework.errors import NoMatch

from ..definitions import definition
from ..waiting import until

DEFINITIONS = untyped(CUSTOM_RESOURCE_DEFINITIONS)
GADGETS = Resource("example.dev", "v1", "Gadget", "gadgets", namespaced=False, type=dict)


async def test_what_the_server_says_of_our_kinds_is_what_we_wrote_down(client):
    mapper = RestMapper(client)

    for resource in (CONFIG_MAPS, NAMESPACES, PODS, JOBS, CUSTOM_RESOURCE_DEFINITIONS, TRAIN_JOBS, JOBSETS):
        assert await mapper.for_kind(resource.kind, group=resource.group) == untyped(resource)
        assert await mapper.for_name(resource.plural, group=resource.group) == untyped(resource)
    assert await mapper.for_name("cm", type=ConfigMap) == CONFIG_MAPS


async def test_the_old_documents_say_the_same_as_the_new_one(client, control_plane):
    class Old:
        """A transport to a server that does not know the aggregated form."""

        async def request(self, method, path, *, headers, **options):
            plain = {**headers, "Accept": "application/json"}
            return await control_plane.transport.request(method, path, headers=plain, **options)

    new, old = RestMapper(client), RestMapper(type(client)(Old(), control_plane.env, field_manager="me"))

    for resource in (CONFIG_MAPS, NAMESPACES, JOBS, CUSTOM_RESOURCE_DEFINITIONS, TRAIN_JOBS):
        assert await old.for_kind(resource.kind, group=resource.group) == untyped(resource)
        assert await new.for_name(resource.plural, group=resource.group) == untyped(resource)
    assert await old.for_kind("TrainJob") == await new.for_kind("TrainJob")
    with pytest.raises(NoMatch, match=r"there is .*TrainJob \(trainer"):
        await old.for_kind("TrainJobb")


async def test_any_manifest_can_be_applied_by_what_it_says_of_itself(client, control_plane, config_map):
    mapper = RestMapper(client)
    manifest = config_map("c", {"k": "v"})

    stored = await client.apply(await mapper.for_object(manifest), manifest)

    assert stored["data"] == {"k": "v"}


async def test_a_kind_that_is_installed_later_is_found_without_a_restart(client, control_plane):
    mapper = RestMapper(client)
    with pytest.raises(NoMatch):
        await mapper.for_kind("Gadget")
    await client.create(DEFINITIONS, definition(GADGETS))
    try:
        # Established, but not yet in the documents, which are looked at only now and then.
        gadgets = await until(lambda: mapper.for_kind("Gadget"), despite=NoMatch, every_s=COOL_DOWN_S)
        assert gadgets == GADGETS
        created = await client.create(
            gadgets, {"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}}
        )
        assert created["metadata"]["uid"]
    finally:
        await client.delete(DEFINITIONS, Key("", GADGETS.qualified_name))
