"""OwnerReferencesPermissionEnforcement: who may make one object hold another."""

from __future__ import annotations

import pytest

from ktrain.framework.env import system_env
from ktrain.local.apiserver.server import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def server():
    async with ApiServer(system_env(), enforce_owner_references=True).running() as server:
        yield server


@pytest.fixture
async def owner(api):
    return await api.create("configmaps", api.config_map("owner"))


def owned(api, owner, **more):
    return api.config_map("owned", ownerReferences=[api.owner(owner, **more)])


async def test_an_object_is_given_an_owner_by_who_creates_it_or_may_delete_it(access, api, owner):
    await access.grant("ann", access.rule("create patch", "configmaps"))
    ann = access.client("ann")
    created = await ann.send("POST", MAPS, owned(api, owner))
    change = {"metadata": {"ownerReferences": [api.owner(created.body)]}}
    refused = await ann.send("PATCH", f"{MAPS}/owner", change, api.MERGE)
    await access.grant("ann", access.rule("delete", "configmaps"), name="more")
    changed = await ann.send("PATCH", f"{MAPS}/owner", change, api.MERGE)

    text = 'configmaps "owner" is forbidden: cannot set an ownerRef on a resource you can\'t delete: , <nil>'
    assert (refused.status, refused.body["message"]) == (403, text)
    assert (created.status, changed.status) == (201, 200)


async def test_an_owner_is_held_only_by_who_may_update_its_finalizers(access, api, owner):
    await access.grant("ann", access.rule("create delete", "configmaps"))
    refused = await access.as_user("ann", "POST", MAPS, owned(api, owner, blockOwnerDeletion=True))
    await access.grant("ann", access.rule("update", "configmaps/finalizers"), name="more")
    created = await access.as_user("ann", "POST", MAPS, owned(api, owner, blockOwnerDeletion=True))

    text = (
        'configmaps "owned" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you '
        "can't set finalizers on: , <nil>"
    )
    assert (refused.status, refused.body["message"], created.status) == (403, text, 201)


async def test_what_is_held_already_is_nobodys_business(access, api, owner):
    await api.create("configmaps", owned(api, owner, blockOwnerDeletion=True))
    await access.grant("ann", access.rule("patch", "configmaps"))
    changed = await access.client("ann").send("PATCH", f"{MAPS}/owned", {"data": {"k": "w"}}, api.MERGE)

    assert changed.status == 200


async def test_administrators_hold_what_they_like(api, owner):
    assert (await api.send("POST", MAPS, owned(api, owner, blockOwnerDeletion=True))).status == 201
