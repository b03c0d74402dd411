"""
Whose child an object is. The garbage collector deletes children after their owner, and controllers find theirs by it.

References are checked here, because the API server takes any and the garbage collector acts on it: an object whose
owner is in another namespace is deleted as one whose owner is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ktrain.api.meta import owner_reference
from ktrain.framework.client.codec import metadata_of
from ktrain.framework.errors import AlreadyOwned

if TYPE_CHECKING:
    from ktrain.api.meta import Json, ObjectMeta, Resource

T = TypeVar("T")


def set_controller_reference(child: Json, owner: T, resource: Resource[T]) -> None:
    """
    Make `owner`, an object of `resource` as the API server gave it, the controller of `child`, which is changed.

    It becomes the one whose controller is told about the child, and cannot be deleted in the foreground before it.

    Raises:
        AlreadyOwned: Another object controls the child, perhaps an earlier one of the same name.
        ValueError: The owner is in another namespace than the child, or in one while the child is in none, or it was
            never created.
    """
    meta = _checked_owner(child, owner, resource)
    reference = owner_reference(resource.api_version, resource.kind, meta.name, meta.uid)
    for other in _references(child):
        if other.get("controller") and other.get("uid") != meta.uid:
            raise AlreadyOwned(
                f"{_name(child)} is controlled by {other.get('kind')} {other.get('name')} (uid {other.get('uid')}), "
                f"so {resource.kind} {meta.key} (uid {meta.uid}) cannot be its controller"
            )
    _put(child, reference)


def set_owner_reference(child: Json, owner: T, resource: Resource[T], *, block_deletion: bool = False) -> None:
    """
    Add `owner` to the owners of `child`, which is changed. It is garbage when the last of them is gone.

    Raises:
        ValueError: As `set_controller_reference`.
    """
    meta = _checked_owner(child, owner, resource)
    reference = owner_reference(resource.api_version, resource.kind, meta.name, meta.uid)
    kept = any(other.get("uid") == meta.uid and other.get("controller") for other in _references(child))
    _put(child, {**reference, "controller": kept, "blockOwnerDeletion": block_deletion})


def _checked_owner(child: Json, owner: T, resource: Resource[T]) -> ObjectMeta:
    meta = metadata_of(owner)
    namespace = (child.get("metadata") or {}).get("namespace", "")
    if not meta.uid:
        raise ValueError(f"{resource.kind} {meta.key} has no uid: only an object that was created can own another")
    if resource.namespaced and not namespace:
        raise ValueError(f"{_name(child)} is in no namespace, so {resource.kind} {meta.key}, which is, cannot own it")
    if resource.namespaced and namespace != meta.namespace:
        raise ValueError(f"{resource.kind} {meta.key} cannot own {_name(child)}: that is in another namespace")
    return meta


def _references(child: Json) -> list[Json]:
    references: list[Json] = (child.get("metadata") or {}).get("ownerReferences") or []
    return references


def _put(child: Json, reference: Json) -> None:
    """Replace the reference to the same object, or add it at the end."""
    references = [reference if each.get("uid") == reference["uid"] else each for each in _references(child)]
    if reference not in references:
        references.append(reference)
    child.setdefault("metadata", {})["ownerReferences"] = references


def _name(child: Json) -> str:
    meta = child.get("metadata") or {}
    name = meta.get("name") or meta.get("generateName", "")
    return f"{child.get('kind', 'object')} {'/'.join(filter(None, (meta.get('namespace'), name)))}"
