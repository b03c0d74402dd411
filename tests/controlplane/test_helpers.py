"""What reconcilers use around their writes, on each server."""

import asyncio

import pytest

from ktrain.api.core import CONFIG_MAPS, untyped
from ktrain.framework.errors import Conflict, Invalid, NotFound
from ktrain.framework.helpers import (
    Outcome,
    add_finalizer,
    create_or_update,
    has_finalizer,
    merge_from,
    remove_finalizer,
    retry_on_conflict,
    set_controller_reference,
)

ANY_MAPS = untyped(CONFIG_MAPS)
ONE, TWO = "ktrain.dev/one", "ktrain.dev/two"


def put(**data):
    def mutate(body):
        body.setdefault("data", {}).update(data)

    return mutate


async def test_an_object_is_created_changed_and_left_alone_when_it_is_as_wanted(client, key):
    made, first = await create_or_update(client, CONFIG_MAPS, key, put(a="1"))
    changed, second = await create_or_update(client, CONFIG_MAPS, key, put(b="2"))
    same, third = await create_or_update(client, CONFIG_MAPS, key, put(a="1", b="2"))

    assert (first, second, third) == (Outcome.CREATED, Outcome.UPDATED, Outcome.UNCHANGED)
    assert (made["data"], changed["data"]) == ({"a": "1"}, {"a": "1", "b": "2"})
    assert same == changed == await client.get(ANY_MAPS, *reversed(key))


async def test_a_mutate_function_that_makes_another_object_writes_nothing(client, key):
    for change in ({"name": "other"}, {"namespace": "other"}):
        with pytest.raises(ValueError, match="may not make another object"):
            await create_or_update(client, CONFIG_MAPS, key, lambda body, new=change: body["metadata"].update(new))
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, *reversed(key))


async def test_twenty_who_change_one_object_at_once_all_get_their_turn(client, control_plane, key):
    env = control_plane.env

    async def count(number):
        def attempt():
            return create_or_update(client, CONFIG_MAPS, key, put(**{f"k{number}": "1"}))

        return await retry_on_conflict(env, attempt, steps=100)

    await asyncio.gather(*(count(number) for number in range(20)))

    assert len((await client.get(CONFIG_MAPS, *reversed(key))).data) == 20


async def test_a_write_between_reading_and_writing_is_a_conflict(client, config_map, key):
    await client.create(CONFIG_MAPS, config_map("c"))
    reading = client.get

    async def slow(*args, **options):
        found = await reading(*args, **options)
        await client.patch(CONFIG_MAPS, key, {"data": {"other": "1"}})
        return found

    client.get = slow
    with pytest.raises(Conflict):
        await create_or_update(client, CONFIG_MAPS, key, put(a="1"))


async def test_finalizers_of_several_are_added_and_removed_whoever_has_read_what(client, config_map, key):
    old = await client.create(CONFIG_MAPS, config_map("c"))

    assert await add_finalizer(client, CONFIG_MAPS, old, ONE)
    assert await add_finalizer(client, CONFIG_MAPS, old, TWO)
    assert not await add_finalizer(client, CONFIG_MAPS, old, ONE)
    both = await client.get(ANY_MAPS, *reversed(key))
    assert both["metadata"]["finalizers"] == [ONE, TWO]
    assert has_finalizer(both, TWO)

    assert await remove_finalizer(client, CONFIG_MAPS, both, ONE)
    assert await remove_finalizer(client, CONFIG_MAPS, both, TWO)
    assert not await remove_finalizer(client, CONFIG_MAPS, both, TWO)
    assert (await client.get(CONFIG_MAPS, *reversed(key))).metadata.finalizers == ()


async def test_ten_who_add_their_finalizers_at_once_lose_none(client, control_plane, config_map, key):
    old = await client.create(CONFIG_MAPS, config_map("c"))

    async def add(number):
        return await retry_on_conflict(
            control_plane.env, lambda: add_finalizer(client, CONFIG_MAPS, old, f"ktrain.dev/n{number}"), steps=20
        )

    assert all(await asyncio.gather(*(add(number) for number in range(10))))
    found = await client.get(CONFIG_MAPS, *reversed(key))
    assert len(found.metadata.finalizers) == 10
    await client.patch(CONFIG_MAPS, key, {"metadata": {"finalizers": None}})


async def test_an_object_that_is_being_deleted_takes_no_finalizer_and_goes_with_its_last(client, config_map, key):
    await client.create(CONFIG_MAPS, config_map("c", finalizers=[ONE]))
    await client.delete(CONFIG_MAPS, key)
    leaving = await client.get(CONFIG_MAPS, *reversed(key))

    with pytest.raises(Invalid, match="no new finalizers"):
        await add_finalizer(client, CONFIG_MAPS, leaving, TWO)
    assert await remove_finalizer(client, CONFIG_MAPS, leaving, ONE)
    assert not await remove_finalizer(client, CONFIG_MAPS, leaving, ONE)
    with pytest.raises(NotFound):
        await add_finalizer(client, CONFIG_MAPS, leaving, TWO)


async def test_a_successor_of_the_same_name_is_not_touched(client, config_map, key):
    old = await client.create(CONFIG_MAPS, config_map("c", finalizers=[ONE]))
    await remove_finalizer(client, CONFIG_MAPS, old, ONE)
    await client.delete(CONFIG_MAPS, key)
    new = await client.create(CONFIG_MAPS, config_map("c", finalizers=[ONE]))

    assert not await remove_finalizer(client, CONFIG_MAPS, old, ONE)
    with pytest.raises(NotFound, match=old.metadata.uid):
        await add_finalizer(client, CONFIG_MAPS, old, TWO)

    assert await client.get(CONFIG_MAPS, *reversed(key)) == new
    await remove_finalizer(client, CONFIG_MAPS, new, ONE)


async def test_a_locked_merge_patch_of_an_old_version_is_a_conflict(client, config_map, key):
    old = await client.create(ANY_MAPS, config_map("c", {"a": "1"}))
    new = {**old, "data": {"b": "1"}}

    patched = await client.patch(ANY_MAPS, key, merge_from(old, new, lock=True))
    assert patched["data"] == {"b": "1"}
    with pytest.raises(Conflict):
        await client.patch(ANY_MAPS, key, merge_from(old, {**old, "data": {"c": "1"}}, lock=True))
    assert (await client.patch(ANY_MAPS, key, merge_from(old, {**old, "data": {"a": "2"}})))["data"]["a"] == "2"


async def test_a_child_with_a_controller_is_as_the_api_server_wants_it(client, control_plane, config_map, key):
    owner = await client.create(CONFIG_MAPS, config_map("owner"))
    body = config_map("c")
    set_controller_reference(body, owner, CONFIG_MAPS)

    stored = await client.create(CONFIG_MAPS, body, field_validation="Strict")

    assert stored.metadata.is_controlled_by(owner.metadata.uid)
