"""
Strategic merge patches: merge patches that know from the schema which lists merge item by item.

Merge keys and strategies are the schema's (`x-kubernetes-patch-merge-key`, `x-kubernetes-patch-strategy`); a list
without them is replaced. Directives in the patch say what merging alone cannot:

    $patch: replace | delete                  on a map, or as an item of a list
    $setElementOrder/<field>: [...]           the order of a merged list
    $deleteFromPrimitiveList/<field>: [...]   what goes from a list of scalars
    $retainKeys: [...]                        which keys of a map stay

Inputs are never changed; the result shares unchanged parts with the document.

Source of the rules: https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/ and
`k8s.io/apimachinery/pkg/util/strategicpatch`.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from .patch import equal
from .patch_text import show
from .schema.node import ANYTHING, MISSING, Node

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from .meta import Json, JsonValue
    from .schema import Schema

_PATCH: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_SET_ORDER: Final = "$setElementOrder/"
_DELETE_ITEMS: Final = "$deleteFromPrimitiveList/"


class StrategicMergeError(ValueError):
    """A patch whose directives or lists make no sense. The text is upstream's."""


class PatchFormatError(StrategicMergeError):
    """The patch itself is to blame, not how it fits the document or the schema."""


def strategic_merge(doc: Json, patch: Json, schema: Schema) -> Json:
    """
    Apply a strategic merge patch. A null removes a key.

    Raises:
        StrategicMergeError: A directive is malformed, or an item lacks the merge key of its list.
    """
    return _merge_map(doc, patch, schema.root)


def _merge_map(doc: Json, patch: Json, node: Node) -> Json:
    if _PATCH in patch:
        return _directed_map(patch)
    result = _retained(doc, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE_ITEMS):
            field = key[len(_DELETE_ITEMS) :]
            if field in result:
                gone = value if isinstance(value, list) else []
                _check_alike(_list(result[field]), gone)
                result[field] = [item for item in _list(result[field]) if item not in gone]
        elif value is None:
            result.pop(key, None)
        elif not _is_directive(key):
            child = node.properties.get(key) or node.additional or ANYTHING
            result[key] = _merge_value(result.get(key, MISSING), value, child)
    for key, order in patch.items():
        if key.startswith(_SET_ORDER):
            field = key[len(_SET_ORDER) :]
            _set_order(result, doc, patch, field, _list(order), node)
    return doc if result.keys() == doc.keys() and all(result[k] is doc[k] for k in doc) else result


def _directed_map(patch: Json) -> Json:
    match patch[_PATCH]:
        case "replace":
            return {key: _plain(value) for key, value in patch.items() if not _is_directive(key)}
        case "delete":
            return {}
    raise _unknown_type(patch)


def _retained(doc: Json, patch: Json) -> Json:
    """Return a copy of the document's map, cut to the keys that the patch retains."""
    if _RETAIN_KEYS not in patch:
        return dict(doc)
    retained = patch[_RETAIN_KEYS]
    set_here = [key for key, value in patch.items() if value is not None and not _is_directive(key)]
    if not isinstance(retained, list) or any(key not in retained for key in set_here):
        raise PatchFormatError("invalid patch format of retainKeys")
    return {key: value for key, value in doc.items() if key in retained}


def _merge_value(before: JsonValue, value: JsonValue, node: Node) -> JsonValue:
    if isinstance(value, dict) and isinstance(before, dict):
        return _plain(value) if "replace" in node.patch_strategies else _merge_map(before, value, node)
    if isinstance(value, list) and isinstance(before, list) and "merge" in node.patch_strategies:
        return _merge_list(before, value, node)
    after = _plain(value)
    return before if before is not MISSING and equal(before, after) else after


def _merge_list(before: list[JsonValue], patch: list[JsonValue], node: Node) -> list[JsonValue]:
    if not {dict, list} & _check_alike(before, patch):
        merged = list(dict.fromkeys((*before, *patch)))
        return _arranged(merged, merged, patch, before)
    key = node.patch_merge_key
    additions, kept = patch, before
    if not key or any(_PATCH in item or key not in item for item in patch):
        _check_items(patch, node)
        additions = [item for item in patch if _PATCH not in item]
        if any(item.get(_PATCH) == "replace" for item in patch):
            return [_plain(item) for item in additions]
        deleted = [item[key] for item in patch if _PATCH in item]
        kept = [item for item in before if item.get(key) not in deleted]
    if _are_all_new(additions, kept, key):
        return [*map(_plain, additions), *kept]
    merged = list(kept)
    known, wanted = _identities(kept, node), _identities(additions, node)
    merged_known = list(known)  # a merge never changes what its item is told apart by
    places = _places(known)
    for item, identity in zip(additions, wanted, strict=True):
        place = places.setdefault(identity, len(merged))
        if place == len(merged):
            merged.append(_plain(item))
            merged_known.append(identity)
        else:
            merged[place] = _merge_map(merged[place], item, node.items or ANYTHING)
    return _arranged(merged, merged_known, wanted, known)


def _are_all_new(additions: list[Json], kept: list[Json], key: str) -> bool:
    """
    Whether no item is told apart like another one.

    It is so where patches pile up, and the merge then takes a tenth of the time: they come first, in their order.
    """
    identity = itemgetter(key)
    try:
        new, old = set(map(identity, additions)), set(map(identity, kept))
    except (KeyError, TypeError):
        return False  # of which `_identities` has more to say
    return len(new) == len(additions) and len(old) == len(kept) and new.isdisjoint(old)


def _check_alike(before: list[JsonValue], patch: list[JsonValue]) -> set[type]:
    """Return the type of all items, none if there is no item."""
    types = {*map(type, before), *map(type, patch)}
    if len(types) > 1:
        raise StrategicMergeError(f"list element types are not identical: {show([before, patch])}")
    return types


def _check_items(patch: list[JsonValue], node: Node) -> None:
    key = node.patch_merge_key
    if not key:
        raise StrategicMergeError("cannot merge lists without merge key")
    for item in patch:
        directive = item.get(_PATCH)
        if directive == "merge":
            raise StrategicMergeError("merging lists cannot yet be specified in the patch")
        if _PATCH in item and directive not in ("replace", "delete"):
            raise _unknown_type(item)
        if directive != "replace":
            _key_of(item, key)


def _key_of(item: Json, key: str) -> JsonValue:
    if key not in item:
        raise StrategicMergeError(f"map: {show(item)} does not contain declared merge key: {key}")
    return item[key]


def _unknown_type(patch: Json) -> StrategicMergeError:
    return StrategicMergeError(f"unknown patch type: {show(patch[_PATCH])} in map: {show(patch)}")


def _set_order(result: Json, doc: Json, patch: Json, field: str, order: list[JsonValue], node: Node) -> None:
    child = node.properties.get(field) or node.additional
    if child is None:
        raise StrategicMergeError(f'unable to find api field for the json field "{field}"')
    _check_order(order, child)
    named = set(_identities(order, child))
    items = [item for item in _list(patch.get(field) or []) if not isinstance(item, dict) or _PATCH not in item]
    if not named.issuperset(_identities(items, child)):
        text = f"The order in patch list:\n{show(items)}\n doesn't match {_SET_ORDER[:-1]} list:\n{show(order)}\n"
        raise StrategicMergeError(text)
    if field in result:
        items, before = _list(result[field]), _list(doc.get(field) or [])
        known, wanted = _identities(items, child), _identities(order, child)
        result[field] = _arranged(items, known, wanted, _identities(before, child))


def _check_order(order: list[JsonValue], node: Node) -> None:
    if not node.patch_merge_key:
        return
    for index, item in enumerate(order):
        if not isinstance(item, dict):
            raise StrategicMergeError(f"value for key {index} is not a map")
        _key_of(item, node.patch_merge_key)


def _arranged(
    items: list[JsonValue], known: Sequence[Hashable], wanted: Iterable[Hashable], before: Sequence[Hashable]
) -> list[JsonValue]:
    """
    Order a merged list: items the patch names in the patch's order, the others in their old order.

    An unnamed item goes before the next named one only if both were there before, in that order. All but the items are
    what they are told apart by: *known* of each of them, *wanted* what the patch names, *before* of the old list.
    """
    place_before, place_wanted = _places(before), _places(wanted)
    named = sorted((place_wanted[key], index) for index, key in enumerate(known) if key in place_wanted)
    last = len(before)
    unnamed = sorted([(place_before.get(key, last), i) for i, key in enumerate(known) if key not in place_wanted])
    arranged: list[JsonValue] = []
    taken = 0
    for _, index in named:
        here = place_before.get(known[index], -1)
        while taken < len(unnamed) and unnamed[taken][0] < here:
            arranged.append(items[unnamed[taken][1]])
            taken += 1
        arranged.append(items[index])
    return arranged + [items[index] for _, index in unnamed[taken:]]


def _places(identities: Iterable[Hashable]) -> dict[Hashable, int]:
    """Return where each is first."""
    found = list(identities)
    return dict(zip(reversed(found), range(len(found) - 1, -1, -1), strict=True))


def _identities(items: list[JsonValue], node: Node) -> list[Hashable]:
    """Return what tells the items of a list apart. Lists are long where patches pile up, so all at once."""
    key = node.patch_merge_key
    found = [item.get(key) if isinstance(item, dict) else item for item in items]
    for identifier in found:
        if identifier.__class__ in (dict, list):
            raise StrategicMergeError(f"items of a list are told apart by a scalar, not by {identifier!r}")
    return found


def _is_directive(key: str) -> bool:
    # The first test is for speed: hardly any key is one.
    return key[:1] == "$" and (key in (_PATCH, _RETAIN_KEYS) or key.startswith((_SET_ORDER, _DELETE_ITEMS)))


def _plain(value: JsonValue) -> JsonValue:
    """Return a value that the document does not have yet: without directives, and nulls have nothing to remove."""
    if isinstance(value, dict):
        # Most values are texts; a call for each would be half of the time.
        return {
            key: child if child.__class__ is str else _plain(child)
            for key, child in value.items()
            if child is not None and not _is_directive(key)
        }
    if isinstance(value, list):
        return [_plain(item) for item in value if not (isinstance(item, dict) and _PATCH in item)]
    return value


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        found = "map" if isinstance(value, dict) else "string" if isinstance(value, str) else show(value)
        raise StrategicMergeError(f"expected a []interface {{}}, but received a {found}")
    return value
