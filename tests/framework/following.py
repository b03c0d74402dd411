"""Informers that follow a scripted server on virtual time; used by the tests of the cache."""

import asyncio
from contextlib import asynccontextmanager

from ktrain.api.core import PODS
from ktrain.framework.cache.cache import Cache
from ktrain.framework.client.client import Client
from ktrain.testing.time import simulate


def pod(name, version, *, namespace="ns", uid=None, **labels):
    meta = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "labels": labels}}


def event(kind, obj):
    return {"type": kind, "object": obj}


def bookmark(version, *, end=False):
    annotations = {"k8s.io/initial-events-end": "true"} if end else {}
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version), "annotations": annotations}})


def failure(code, reason="", message="no", **details):
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


SYNCED = [event("ADDED", pod("a", 3)), event("ADDED", pod("b", 2)), bookmark(5, end=True)]


def follow(script, scenario, *, seed=0, seconds=1.0, resource=PODS, **scope):
    """Run an informer (of pods) against the script for some virtual seconds; return what `scenario` makes of it."""

    async def main(env):
        cache = Cache(Client(script, env, field_manager="test"), env)
        informer = cache.informer(resource, **scope)
        seen = []
        informer.add_handler(Recorder(seen))
        task = asyncio.create_task(cache.run())
        await env.clock.sleep(seconds)
        result = scenario(informer, seen, script)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return result

    return simulate(main, seed=seed)


class Recorder:
    def __init__(self, seen):
        self.seen = seen

    def on_add(self, obj, *, initial):
        self.seen.append(("initial" if initial else "add", obj.metadata.name))

    def on_update(self, old, new):
        self.seen.append(("update", new.metadata.name, old.metadata.resource_version, new.metadata.resource_version))

    def on_delete(self, obj):
        self.seen.append(("delete", obj.metadata.name))


class Mirror:
    """A handler that rebuilds the content from what it is told, and refuses what cannot follow."""

    def __init__(self):
        self.objects = {}
        self.told = 0

    def on_add(self, obj, *, initial):
        assert obj.metadata.key not in self.objects
        self._keep(obj)

    def on_update(self, old, new):
        before = self.objects[new.metadata.key]
        assert before is old
        assert int(before.metadata.resource_version) < int(new.metadata.resource_version)
        self._keep(new)

    def on_delete(self, obj):
        del self.objects[obj.metadata.key]
        self.told += 1

    def _keep(self, obj):
        self.objects[obj.metadata.key] = obj
        self.told += 1

    def versions(self):
        return {key: obj.metadata.resource_version for key, obj in self.objects.items()}


def names(informer, seen, script):
    return sorted(p.metadata.name for p in informer.list())


def watches(script):
    return [call.query for call in script.calls if call.method == "WATCH"]


def lists(script):
    return [call.query for call in script.calls if call.method == "GET"]


@asynccontextmanager
async def running(script, env, *, cluster="", **options):
    """A cache that runs against a script."""
    cache = Cache(Client(script, env, field_manager="test", cluster=cluster), env, **options)
    task = asyncio.create_task(cache.run())
    await asyncio.sleep(0)
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
