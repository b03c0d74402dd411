"""A server of one widget whose writes say who owns what."""

import copy
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from ktrain.api.patch import merge_patch
from ktrain.api.schema import Schema
from ktrain.local.apiserver.fields.apply import (
    ApplyConflict,
    server_side_apply,
    track_update,
)

SPEC = yaml.safe_load("""
replicas: {type: integer, default: 1}
mode: {type: string, default: A}
image: {type: string}
name: {type: string}
flag: {type: boolean}
ios: {x-kubernetes-int-or-string: true}
tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
plain: {type: array, items: {type: string}}
atomic: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}
amap: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
labels: {type: object, additionalProperties: {type: string}}
ports:
  type: array
  x-kubernetes-list-type: map
  x-kubernetes-list-map-keys: [port, protocol]
  items:
    type: object
    properties:
      port: {type: integer}
      protocol: {type: string, default: TCP}
      name: {type: string}
      hostPort: {type: integer}
conts:
  type: array
  x-kubernetes-list-type: map
  x-kubernetes-list-map-keys: [name]
  items:
    type: object
    properties:
      name: {type: string}
      image: {type: string}
      env:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items: {type: object, properties: {name: {type: string}, value: {type: string}}}
nested: {type: object, properties: {a: {type: string}, b: {type: integer}}}
free: {type: object, x-kubernetes-preserve-unknown-fields: true}
defobj: {type: object, default: {}, properties: {x: {type: integer, default: 5}, y: {type: string}}}
""")
STATUS = yaml.safe_load("""
phase: {type: string}
conditions:
  type: array
  x-kubernetes-list-type: map
  x-kubernetes-list-map-keys: [type]
  items: {type: object, properties: {type: {type: string}, status: {type: string}}}
""")
WIDGET = Schema.from_crd(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": SPEC},
            "status": {"type": "object", "properties": STATUS},
        },
    }
)
DEFAULTS = {"replicas": 1, "mode": "A", "defobj": {"x": 5}}
VERSION = "ex.test/v1"


class Server:
    """One widget, and what a server does around apply and update."""

    def __init__(self, live=None):
        self.live = live
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def apply(self, manager, spec=None, *, force=False, sub="", meta=None, **top):
        body = {"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": "a", **(meta or {})}, **top}
        if spec is not None:
            body["spec"] = spec
        before = copy.deepcopy((self.live, body))
        self.now += timedelta(seconds=1)
        merged = server_side_apply(
            self.live, body, schema=WIDGET, manager=manager, force=force, api_version=VERSION, subresource=sub,
            now=self.now, reset=("spec",) if sub else ("status",),
        )  # fmt: skip
        assert (self.live, body) == before, "arguments stay as they are"
        if merged is self.live:
            return "no-op"
        self.live = WIDGET.default(WIDGET.prune(merged, keep_nulls=True)[0])
        return None

    def force(self, manager, spec):
        return self.apply(manager, spec, force=True)

    def update(self, manager, new, sub=""):
        self.now += timedelta(seconds=1)
        new = WIDGET.default(WIDGET.prune(new)[0])
        reset = {"": ("status",), "status": ("spec",), "scale": ()}[sub]
        self.live = track_update(
            self.live, new, schema=WIDGET, manager=manager, api_version=VERSION, subresource=sub, now=self.now,
            reset=reset,
        )  # fmt: skip

    def post(self, manager, spec):
        self.live = None
        self.update(manager, {"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})

    def patch(self, manager, spec, sub=""):
        self.update(manager, merge_patch(self.live, {"spec": spec}), sub)

    def managed_fields(self, entries):
        """PUT the object with other managedFields."""
        self.update("x", {**self.live, "metadata": {**self.live["metadata"], "managedFields": entries}})

    @property
    def spec(self):
        return {key: value for key, value in self.live.get("spec", {}).items() if DEFAULTS.get(key) != value}

    @property
    def entries(self):
        return self.live["metadata"].get("managedFields", [])

    @property
    def managers(self):
        return [(e["manager"], e["operation"], e.get("subresource", "")) for e in self.entries]

    def owned(self, manager, operation="Apply", sub=""):
        """The manager's paths as text, without the leading `spec.`; None without an entry."""
        for entry in self.entries:
            if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (manager, operation, sub):
                return set(shown(entry["fieldsV1"]))
        return None


def shown(node, path=""):
    """Owned paths, list items by their key's values: `spec.conts[x].image`; the item itself is `spec.conts[x]`."""
    if path and (not node or "." in node):
        yield path.removeprefix("spec.")
    for element, below in node.items():
        kind, text = element[:2], element[2:]
        if element == ".":
            continue
        if kind == "k:":
            text = f"[{','.join(str(v) for v in yaml.safe_load(text).values())}]"
        elif kind == "v:":
            text = f"={yaml.safe_load(text)}"
        elif path:
            text = f".{text}"
        yield from shown(below, path + text)


def conflicts(server, manager, spec, **options):
    with pytest.raises(ApplyConflict) as caught:
        server.apply(manager, spec, **options)
    return str(caught.value)
