"""Label and field selectors of list, watch and deletecollection, as one test of a stored object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.selectors import FieldSelector, LabelSelector, SelectorError
from ktrain.local.apiserver.errors import bad_request
from ktrain.local.apiserver.forms import views

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.backend import Call
    from ktrain.local.apiserver.registry import ServedResource
    from ktrain.local.apiserver.storage.store import Item

_NO_LABELS: Final[Mapping[str, str]] = {}
_EVERYWHERE: Final = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}


def parse(call: Call) -> tuple[LabelSelector, FieldSelector]:
    """
    Read the selectors of a request.

    Raises:
        StatusError: 400: they cannot be read, or name a field that the kind cannot be selected by.
    """
    try:
        labels = LabelSelector.parse(call.parameters.text("labelSelector"))
        fields = FieldSelector.parse(call.parameters.text("fieldSelector"))
    except SelectorError as error:
        raise bad_request(str(error)) from error
    for requirement in fields.requirements:
        if requirement.field not in _EVERYWHERE and requirement.field not in call.resource.field_labels:
            raise bad_request(_unknown_field(call.resource, requirement.field))
    return labels, fields


def matcher(
    resource: ServedResource, namespace: str, labels: LabelSelector, fields: FieldSelector
) -> Callable[[Item], bool]:
    """Return whether an object is in this namespace (any, if empty) and fits the selectors."""
    selects = _label_test(labels)
    paths = {r.field: _EVERYWHERE.get(r.field) or resource.field_labels[r.field] for r in fields.requirements}

    def matches(item: Item) -> bool:
        meta = item.obj["metadata"]
        if namespace and meta.get("namespace") != namespace:
            return False
        if selects is not None and not selects(meta.get("labels", _NO_LABELS)):
            return False
        if not paths:
            return True
        obj = views.present(resource, item)
        return fields.matches({name: _text(obj, path) for name, path in paths.items()})

    return matches


def _label_test(labels: LabelSelector) -> Callable[[Mapping[str, str]], bool] | None:
    """Return the test of an object's labels, None if all pass. Each change is tested twice by each watcher."""
    if labels.is_everything:
        return None
    if len(labels.requirements) != 1:
        return labels.matches
    (only,) = labels.requirements
    if only.operator != "in" or len(only.values) != 1:
        return only.matches
    key, (value,) = only.key, only.values
    return lambda given: given.get(key) == value


def _text(obj: Json, path: tuple[str, ...]) -> str:
    value: object = obj
    for name in path:
        if isinstance(value, list):
            value = value[0] if value else None
        if not isinstance(value, dict):
            return ""
        value = value.get(name)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _unknown_field(resource: ServedResource, field: str) -> str:
    if resource.custom or resource.field_labels:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
