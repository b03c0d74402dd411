"""
Who may make one object hold another: the admission plugin OwnerReferencesPermissionEnforcement.

Off by default upstream, on in some distributions; there a controller that sets `blockOwnerDeletion` needs `update` on
the owner's `finalizers`, which its chart has to grant. Turned on here, it shows that in a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrain.local.apiserver.access.attributes import Attributes
from ktrain.local.apiserver.errors import forbidden

if TYPE_CHECKING:
    from ktrain.api.meta import Json
    from ktrain.local.apiserver.access.gate import Gate
    from ktrain.local.apiserver.admission.chain import AdmissionRequest, AdmissionResponse
    from ktrain.local.apiserver.registry import Registry


class OwnerReferences:
    """The admission plugin of one server."""

    def __init__(self, gate: Gate, registry: Registry) -> None:
        self._gate = gate
        self._registry = registry

    def admit(self, request: AdmissionRequest) -> AdmissionResponse | None:
        """
        Refuse owners to who may not delete the object, and blocking ones to who may not hold the owner.

        Raises:
            StatusError: 403.
        """
        if request.object is None or self._gate.is_unlimited(request.user):
            return None
        now, before = _references(request.object), _references(request.old_object or {})
        if now == before:
            return None
        # Who creates an object could have left it, so whether it may be collected is theirs to say.
        if request.old_object is not None:
            self._check_deletion(request)
        blocking = {reference["uid"] for reference in before if reference.get("blockOwnerDeletion")}
        for reference in now:
            if reference.get("blockOwnerDeletion") and reference["uid"] not in blocking:
                self._check_owner(request, reference)
        return None

    def _check_deletion(self, request: AdmissionRequest) -> None:
        resource = request.resource
        asked = Attributes(
            verb="delete",
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            namespace=request.namespace,
            name=request.name,
        )
        self._require(request, asked, "cannot set an ownerRef on a resource you can't delete")

    def _check_owner(self, request: AdmissionRequest, reference: Json) -> None:
        version, kind = reference["apiVersion"], reference["kind"]
        owner = self._registry.by_kind(version, kind)
        if owner is None:
            detail = (
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "
                f'APIVersion {version} Kind {kind}: no matches for kind "{kind}" in version "{version}"'
            )
            raise forbidden(request.resource, request.name, detail)
        asked = Attributes(
            verb="update",
            group=owner.group,
            version=owner.version,
            resource=owner.plural,
            subresource="finalizers",
            namespace=request.namespace if owner.namespaced else "",
            name=reference["name"],
        )
        detail = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
        self._require(request, asked, detail)

    def _require(self, request: AdmissionRequest, asked: Attributes, detail: str) -> None:
        decision = self._gate.decide(request.user, asked)
        if not decision.allowed:
            # Upstream's text ends with the authoriser's reason and its error, of which there is none.
            raise forbidden(request.resource, request.name, f"{detail}: {decision.reason}, <nil>")


def _references(obj: Json) -> list[Json]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []
