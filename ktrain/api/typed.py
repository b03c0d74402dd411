"""
JobSet specs as Go's typed objects write them.

Kubeflow's Trainer decodes what it reads and encodes it again, and on that way loses what is empty: `tolerations: []` of
a patch takes nothing away, `value: ""` of a patched variable leaves the runtime's value. Amounts come out canonical. So
do snapshots and JobSets of ours, or an apply of the one would undo the other's. What the schema does not know stays.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from .quantity import canonical

if TYPE_CHECKING:
    from .meta import Json, JsonValue
    from .schema.node import Node

_LISTS: Final = ("onJobFailureMessagePatterns", "onJobFailureReasons", "targetReplicatedJobs")
_OMITTED: Final = {
    (): ("replicatedJobs", "volumeClaimPolicies"),
    ("replicatedJobs",): ("dependsOn", "groupName"),
    ("network",): ("subdomain",),
    ("failurePolicy",): ("maxRestarts", "restartStrategy", "rules"),
    ("failurePolicy", "rules"): _LISTS,
    ("successPolicy",): ("targetReplicatedJobs",),
    ("coordinator",): ("jobIndex", "podIndex"),
    ("volumeClaimPolicies",): ("templates",),
}
"""
Fields of a JobSet spec that are left out when they are empty, by the way to them; of `jobset_types.go`.

But for `replicas`: none at all is then lost, and becomes the default, which is 1.
"""

_POD_CONDITION: Final = {"type", "status"}
"""What a rule of a `podFailurePolicy` says of a condition; the API server takes an empty status for True."""


def as_typed(spec: Json) -> Json:
    """Return a JobSet spec, or a patch of one, without what is empty and with canonical amounts; *spec* stays."""
    written: Json = _write(spec, _schema())
    return written


def _write(value: JsonValue, node: Node) -> JsonValue:
    if isinstance(value, dict):
        return _write_object(value, node)
    if isinstance(value, list) and node.items is not None:
        return [_write(item, node.items) for item in value]
    return _amount(value) if node.type == "quantity" else value


def _write_object(value: Json, node: Node) -> Json:
    written: Json = {}
    properties, additional, omitted = node.properties, node.additional, node.omit_empty
    for key, item in value.items():
        child = properties.get(key, additional)
        # Most values are texts, and few of those amounts; a call for each would be half of the time.
        as_it_is = child is None or (isinstance(item, str) and child.type != "quantity")
        new = item if as_it_is or child is None else _write(item, child)
        if new is not None and (new or key not in omitted):
            written[key] = new
    # Two fields are there also if nobody says them: the one amount that is no pointer, and a status that is kept.
    if "divisor" in node.properties:
        written.setdefault("divisor", "0")
    elif node.properties.keys() == _POD_CONDITION:
        written.setdefault("status", "")
    return written


def _amount(value: JsonValue) -> JsonValue:
    try:
        return canonical(value)
    except ValueError:
        return value  # the API server says what is wrong with it


@lru_cache(maxsize=1)
def _schema() -> Node:
    from .schema import Schema  # with the built-in definitions some 20 ms, for who has a runtime or a patch

    root = Schema.from_crd(_object(_PROPERTIES)).root
    for path, fields in _OMITTED.items():
        node = root
        for step in path:
            node = node.properties[step]
            node = node.items or node
        node.omit_empty = frozenset(fields)
    return root


def _object(properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


_PROPERTIES: Final[dict[str, Any]] = {
    "coordinator": _object({}),
    "failurePolicy": _object({"rules": _array(_object({}))}),
    "network": _object({}),
    "replicatedJobs": _array(_object({"template": {"$ref": "batch.v1.JobTemplateSpec"}})),
    "successPolicy": _object({}),
    "volumeClaimPolicies": _array(_object({"templates": _array({"$ref": "core.v1.PersistentVolumeClaim"})})),
}
