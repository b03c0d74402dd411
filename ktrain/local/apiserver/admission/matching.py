"""Which writes a webhook or a policy wants to see, and in which version: rules, selectors, matchPolicy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.api.meta import Key
from ktrain.api.selectors import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ktrain.api.meta import Json
    from ktrain.local.apiserver.admission.authorizer import Decide
    from ktrain.local.apiserver.admission.chain import AdmissionRequest
    from ktrain.local.apiserver.registry import Registry, ServedResource
    from ktrain.local.apiserver.storage.store import Store

GROUP: Final = "admissionregistration.k8s.io"

MUTATING: Final = "mutatingwebhookconfigurations"
VALIDATING: Final = "validatingwebhookconfigurations"
POLICIES: Final = "validatingadmissionpolicies"
BINDINGS: Final = "validatingadmissionpolicybindings"
_COLLECTIONS: Final = {plural: f"{plural}.{GROUP}" for plural in (MUTATING, VALIDATING, POLICIES, BINDINGS)}


class Matcher:
    """Matches requests against the fields that webhooks and policies have in common."""

    def __init__(self, store: Store, registry: Registry, decide: Decide) -> None:
        self.decide = decide
        """Whom CEL expressions ask for permissions."""
        self._store = store
        self._registry = registry

    def find(self, rules: Iterable[Json], policy: str, request: AdmissionRequest) -> ServedResource | None:
        """
        Return the version in which rules cover a request; None if they do not.

        Under `policy` Equivalent a rule for another version of the same objects will do. Admission itself is never
        subject to admission, or nobody could undo a mistake.
        """
        wanted = request.resource
        if wanted.group == GROUP:
            return None
        rules = list(rules)
        if any(_covers(rule, request, wanted) for rule in rules):
            return wanted
        if policy == "Exact":
            return None
        others = [
            one
            for one in self._registry
            if one.collection == wanted.collection and one is not wanted and one.plural == wanted.plural
        ]
        return next((one for rule in rules for one in others if _covers(rule, request, one)), None)

    def selects(self, entry: Json, request: AdmissionRequest) -> bool:
        """Whether the namespace selector and the object selector of an entry fit."""
        by_object = LabelSelector.from_object(entry.get("objectSelector") or {})
        both = [one for one in (request.object, request.old_object) if one is not None]
        # What has no metadata, the options of a connect, has no labels to select by.
        if not by_object.is_everything and not any("metadata" in o and by_object.matches(_labels(o)) for o in both):
            return False
        by_namespace = LabelSelector.from_object(entry.get("namespaceSelector") or {})
        if by_namespace.is_everything:
            return True
        if request.resource.collection == "namespaces":
            return by_namespace.matches(_labels(both[0]))
        if not request.resource.namespaced:
            return True
        return by_namespace.matches(_labels(self.namespace(request.namespace) or {}))

    def namespace(self, name: str) -> Json | None:
        """Return a Namespace as it is stored."""
        item = self._store.collection("namespaces").get(Key("", name))
        return item.obj if item else None

    def stored(self, plural: str) -> list[Json]:
        """Return all configurations of a kind, in the order of their names."""
        collection = self._store.collections.get(_COLLECTIONS[plural])
        return [item.obj for _, item in collection.entries()] if collection else []


def _covers(rule: Json, request: AdmissionRequest, resource: ServedResource) -> bool:
    has = _has(rule, "operations", request.operation) and _has(rule, "apiGroups", resource.group)
    if not has or not _has(rule, "apiVersions", resource.version):
        return False
    if rule.get("scope", "*") not in {"*", "Namespaced" if resource.namespaced else "Cluster"}:
        return False
    if (names := rule.get("resourceNames")) and request.name not in names:
        return False
    for pattern in rule.get("resources") or ():
        plural, _, subresource = pattern.partition("/")
        if plural in {"*", resource.plural} and subresource in {"*", request.subresource}:
            return True
    return False


def _has(rule: Json, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return "*" in values or value in values


def _labels(obj: Json) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}
