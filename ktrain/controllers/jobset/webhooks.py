"""
The rules for JobSets and their pods as webhook handlers, by the paths of the JobSet operator.

Pods and nodes are looked up in caches: each pod of a large Job asks, and one that comes too early for the cache is
refused and tried again by the Job controller. Claims are read from the server, as few JobSets have any.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ktrain.api.core import PERSISTENT_VOLUME_CLAIMS, untyped
from ktrain.api.meta import Json, Key
from ktrain.framework.errors import NotFound
from ktrain.framework.webhook import Allowed, Denied

from . import admission, placement
from .volume_rules import claim_keys

if TYPE_CHECKING:
    from ktrain.framework import Client
    from ktrain.framework.webhook import AdmissionHandler, AdmissionRequest

    from .gates import Gates

MUTATE_JOBSETS: Final = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_JOBSETS: Final = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
MUTATE_PODS: Final = "/mutate--v1-pod"
VALIDATE_PODS: Final = "/validate--v1-pod"


def make_handlers(client: Client, gates: Gates, placed: placement.Cluster) -> dict[str, AdmissionHandler]:
    """Make all handlers. `client` reads claims, `placed` knows pods and nodes."""

    def default_jobset(request: AdmissionRequest) -> Allowed | Denied:
        if request.object is None or request.operation != "CREATE":
            return Allowed()
        return Allowed(admission.default_jobset(request.object))

    async def validate_jobset(request: AdmissionRequest) -> Allowed | Denied:
        if request.object is None or request.operation not in ("CREATE", "UPDATE"):
            return Allowed()
        claims = await _claims(client, request.object) if request.operation == "CREATE" else {}
        causes = admission.refusals(
            request.object, request.old_object, gates, lambda namespace, name: claims.get(Key(namespace, name))
        )
        if not causes:
            return Allowed()
        status = admission.invalid_jobset(request.name, causes)
        details: dict[str, Any] = msgspec.to_builtins(status.details)
        return Denied(status.message, status.code, status.reason, details.pop("causes"), details=details)

    def place_pod(request: AdmissionRequest) -> Allowed | Denied:
        if request.object is None or request.operation != "CREATE":
            return Allowed()
        try:
            return Allowed(placement.place(request.object, request.namespace, placed))
        except placement.Misplaced as error:
            return Denied(str(error), reason="Forbidden")

    def check_pod(request: AdmissionRequest) -> Allowed | Denied:
        if request.object is None or request.operation != "CREATE":
            return Allowed()
        try:
            placement.check(request.object, request.namespace, placed)
        except placement.Misplaced as error:
            return Denied(str(error), reason="Forbidden")
        return Allowed()

    return {
        MUTATE_JOBSETS: default_jobset,
        VALIDATE_JOBSETS: validate_jobset,
        MUTATE_PODS: place_pod,
        VALIDATE_PODS: check_pod,
    }


async def _claims(client: Client, jobset: Json) -> dict[Key, Json]:
    """Return the claims that are there already under the names that a JobSet would use."""
    found: dict[Key, Json] = {}
    for key in claim_keys(jobset):
        with suppress(NotFound):
            found[key] = await client.get(untyped(PERSISTENT_VOLUME_CLAIMS), key.name, key.namespace)
    return found
