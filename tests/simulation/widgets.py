"""
A small operator that knows nothing of training, to show what the framework alone makes hold under faults.

A Widget says a text; its ConfigMap of the same name holds that text, and its status says which text that is.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import msgspec

from ktrain.api.core import CONFIG_MAPS
from ktrain.api.meta import Key, Object, Resource, Struct, owner_reference
from ktrain.framework import Cache, Client, Controller, Manager

from ..definitions import definition


class WidgetSpec(Struct, frozen=True):
    text: str = ""


class Widget(Object, frozen=True):
    spec: WidgetSpec = WidgetSpec()
    status: WidgetSpec = WidgetSpec()


WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True, type=Widget)
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
SCHEMA = {"type": "object", "properties": {"spec": TEXT, "status": TEXT}}
CRD = definition(WIDGETS, schema=SCHEMA, subresources={"status": {}})


def widget(name, text="hello"):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"text": text},
    }


class NotOurs(Exception):
    """A ConfigMap of that name belongs to somebody else, perhaps to a Widget that is gone."""


@dataclass
class Operator:
    """The program; one object is one configuration, `main` is started as often as wanted."""

    workers: int = 1
    force: bool = False
    overlaps: list[str] = field(default_factory=list)
    passes: list[Key] = field(default_factory=list)

    async def main(self, transport, env):
        await self.manager(transport, env).run()

    def manager(self, transport, env, *, guard=None, **options):
        client = Client(transport, env, field_manager="widgets", guard=guard)
        cache = Cache(client, env)
        widgets, config_maps = cache.informer(WIDGETS), cache.informer(CONFIG_MAPS)
        busy = set()

        async def reconcile(key):
            if key in busy:
                self.overlaps.append(str(key))
            busy.add(key)
            self.passes.append(key)
            try:
                await self.reconcile(client, widgets.get(key), config_maps.get(key))
            finally:
                busy.discard(key)

        controller = Controller("widget", reconcile, env=env, cache=cache, max_concurrent_reconciles=self.workers)
        controller.watches(widgets)
        controller.owns(config_maps, owner=WIDGETS)
        return Manager(cache=cache, controllers=[controller], **options)

    async def reconcile(self, client, found, child):
        if found is None or found.metadata.deletion_timestamp:
            return
        if child is not None and not child.metadata.is_controlled_by(found.metadata.uid):
            raise NotOurs(f"ConfigMap {child.key} is not controlled by Widget {found.key}")
        data = {"text": found.spec.text}
        if child is None:
            # The cache may be late: what is made for a Widget that is gone is only collected again.
            live = await client.get(WIDGETS, *reversed(found.key))
            if live.metadata.uid != found.metadata.uid or live.metadata.deletion_timestamp:
                raise NotOurs(f"Widget {found.key} is another one by now")
            await client.create(CONFIG_MAPS, self.child(found, data))
        elif child.data != data:
            body = self.child(found, data)
            body["metadata"]["resourceVersion"] = child.metadata.resource_version
            await client.update(CONFIG_MAPS, body)
        if found.status.text != found.spec.text:
            # A Widget that was made again under the name has its own story. A UID would not tell: API servers take
            # nothing of the metadata that /status of a custom object is sent, but hold writes to the version they name.
            patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "status": data}
            await client.patch(WIDGETS, found.key, patch, subresource="status")

    def child(self, found, data):
        owner = owner_reference(WIDGETS.api_version, "Widget", found.metadata.name, found.metadata.uid)
        metadata = {"name": found.metadata.name, "namespace": found.metadata.namespace, "ownerReferences": [owner]}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def children_are_owned(world):
    """Every ConfigMap with an owner has one that is or was a Widget, and the text of some generation of it."""
    for child in world.objects(CONFIG_MAPS):
        for owner in child["metadata"].get("ownerReferences", []):
            assert owner["kind"] == "Widget", f"{child['metadata']['name']} is owned by a {owner['kind']}"
            assert owner["uid"], f"{child['metadata']['name']} has an owner without UID"
            assert child["data"]["text"].startswith("hello"), child


def status_is_true():
    """Make an invariant: a status says only what the ConfigMap of this very Widget has said, now or before."""
    said = defaultdict(set)

    def check(world):
        for child in world.objects(CONFIG_MAPS):
            for owner in child["metadata"].get("ownerReferences", []):
                said[owner["uid"]].add(child["data"]["text"])
        for found in world.objects(WIDGETS):
            text = found.get("status", {}).get("text")
            texts = said[found["metadata"]["uid"]]
            assert text is None or text in texts, f"{found['metadata']['name']} says {text!r}, its ConfigMap {texts}"

    return check


def converged(world):
    """Every Widget has its ConfigMap, and says so."""
    children = {obj["metadata"]["name"]: obj for obj in world.objects(CONFIG_MAPS)}
    return all(
        found["metadata"]["name"] in children
        and children[found["metadata"]["name"]]["data"] == found["spec"] == found.get("status")
        and children[found["metadata"]["name"]]["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
        for found in world.objects(WIDGETS)
    )


async def create(world, *names, text="hello"):
    for name in names:
        await world.client.create(WIDGETS, widget(name, text))


async def say(world, name, text):
    await world.client.patch(WIDGETS, Key("default", name), {"spec": {"text": text}})


async def life(world):
    """What users do: create, change, delete, delete and create again under the same name."""
    pause = world.env.clock.sleep
    await create(world, "a", "b")
    await pause(2)
    await say(world, "a", "hello again")
    await pause(2)
    await world.client.delete(WIDGETS, Key("default", "b"))
    await create(world, "c")
    await pause(2)
    await world.client.delete(WIDGETS, Key("default", "c"))
    await create(world, "c", text="hello, new one")


def end_state(world):
    return msgspec.json.decode(msgspec.json.encode(world.state(WIDGETS, CONFIG_MAPS)))
