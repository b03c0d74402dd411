"""The objects that a binding hands to its policy as `params`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.api.meta import Key
from ktrain.api.selectors import LabelSelector
from ktrain.local.apiserver.forms import views

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.conversion import Conversions
    from ktrain.local.apiserver.registry import Registry, ServedResource
    from ktrain.local.apiserver.storage.store import Item, Store


class Misconfigured(Exception):
    """A policy or a binding that cannot work as it is written."""


class Parameters:
    """Finds parameters in the store."""

    def __init__(self, store: Store, registry: Registry, conversions: Conversions) -> None:
        self._store = store
        self._registry = registry
        self._conversions = conversions

    def resource(self, kind: Json | None) -> ServedResource | None:
        """
        Return the resource of a policy's `paramKind`; None if the policy has none.

        Raises:
            Misconfigured: There is no such kind.
        """
        if kind is None:
            return None
        found = self._registry.by_kind(kind["apiVersion"], kind["kind"])
        if found is None:
            shown = f"{kind['apiVersion']}, Kind={kind['kind']}"
            raise Misconfigured(f"failed to find resource referenced by paramKind: '{shown}'")
        return found

    async def collect(
        self, resource: ServedResource | None, reference: Json | None, namespace: str
    ) -> list[Json | None]:
        """
        Return the parameters to evaluate a policy with, one after the other; `[None]` if it is to go without.

        Raises:
            Misconfigured: They are not there, and the binding says that this matters; or the reference is wrong.
            StatusError: They cannot be converted to the version asked for.
        """
        if resource is None or reference is None:
            return [None]
        wanted = reference.get("namespace", "")
        if wanted and not resource.namespaced:
            raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        where = (wanted or namespace) if resource.namespaced else ""
        if resource.namespaced and not where:
            raise Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
        found = self._select(resource, reference, where)
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
        items = await self._conversions.items(resource, found)
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**views.present(resource, item), **head} for item in items]

    def _select(self, resource: ServedResource, reference: Json, namespace: str) -> list[Item]:
        collection = self._store.collection(resource.collection)
        if name := reference.get("name"):
            item = collection.get(Key(namespace, name))
            return [item] if item else []
        selector = LabelSelector.from_object(reference.get("selector"))
        entries = collection.entries(namespace)
        return [item for _, item in entries if selector.matches(item.obj["metadata"].get("labels") or {})]
