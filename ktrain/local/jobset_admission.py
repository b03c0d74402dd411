"""What the JobSet operator's webhooks do on a cluster, done in process: for JobSets, and for the pods of their Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ktrain.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from ktrain.api.jobset import JOBSET_NAME, JOBSETS, JobSetPod
from ktrain.api.meta import Json, Key, Object
from ktrain.controllers.jobset import admission as rules
from ktrain.controllers.jobset import placement
from ktrain.local.apiserver.admission.chain import AdmissionPlugin, AdmissionRequest, AdmissionResponse
from ktrain.local.apiserver.errors import StatusError

from .admission import is_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ktrain.api.meta import Resource
    from ktrain.controllers.jobset import Gates

    from .store_reader import Find


class Objects(Protocol):
    """Reads the server's store."""

    def __call__(self, resource: Resource[Any], namespace: str) -> Iterable[Json]:
        """Return the objects of a kind in a namespace; nobody may change them."""


def jobset_plugins(gates: Gates, find: Find, objects: Objects) -> list[AdmissionPlugin]:
    """Make the plugins of one server."""
    jobsets, pods = _JobSetRules(gates, find), _PodRules(_Stored(find, objects))
    return [
        AdmissionPlugin("jobset-defaults", jobsets.default, mutating=True),
        AdmissionPlugin("jobset-pod-placement", pods.place, mutating=True),
        AdmissionPlugin("jobset-rules", jobsets.validate),
        AdmissionPlugin("jobset-pod-rules", pods.validate),
    ]


class _JobSetRules:
    def __init__(self, gates: Gates, find: Find) -> None:
        self._gates = gates
        self._find = find

    def default(self, request: AdmissionRequest) -> AdmissionResponse | None:
        if not is_write(request, JOBSETS) or request.operation != "CREATE" or request.object is None:
            return None
        return AdmissionResponse(rules.default_jobset(request.object))

    def validate(self, request: AdmissionRequest) -> AdmissionResponse | None:
        if not is_write(request, JOBSETS) or request.object is None:
            return None
        causes = rules.refusals(request.object, request.old_object, self._gates, self._find_claim)
        if causes:
            status = rules.invalid_jobset(request.name, causes)
            details = msgspec.to_builtins(status.details)
            raise StatusError(
                status.code, status.reason, _denied(rules.VALIDATE_JOBSETS, status.message), details=details
            )
        return None

    def _find_claim(self, namespace: str, name: str) -> Json | None:
        claims = PERSISTENT_VOLUME_CLAIMS
        return self._find(claims.group, claims.version, claims.plural, Key(namespace, name))


class _PodRules:
    def __init__(self, cluster: placement.Cluster) -> None:
        self._cluster = cluster

    def place(self, request: AdmissionRequest) -> AdmissionResponse | None:
        pod = _new_pod(request)
        if pod is None:
            return None
        try:
            return AdmissionResponse(placement.place(pod, request.namespace, self._cluster))
        except placement.Misplaced as error:
            raise _forbidden(rules.MUTATE_PODS, error) from error

    def validate(self, request: AdmissionRequest) -> AdmissionResponse | None:
        pod = _new_pod(request)
        if pod is not None:
            try:
                placement.check(pod, request.namespace, self._cluster)
            except placement.Misplaced as error:
                raise _forbidden(rules.VALIDATE_PODS, error) from error
        return None


def _new_pod(request: AdmissionRequest) -> Json | None:
    """The pod of a JobSet that is about to be created."""
    if not is_write(request, PODS) or request.operation != "CREATE" or request.object is None:
        return None
    labels = (request.object.get("metadata") or {}).get("labels") or {}
    return request.object if JOBSET_NAME in labels else None


def _forbidden(webhook: str, error: placement.Misplaced) -> StatusError:
    return StatusError(403, "Forbidden", _denied(webhook, str(error)))


def _denied(webhook: str, message: str) -> str:
    return f'admission webhook "{webhook}" denied the request: {message}'


class _Stored:
    """What placement looks up, from the server's store: a follower may be made right after its leader."""

    def __init__(self, find: Find, objects: Objects) -> None:
        self._find = find
        self._objects = objects

    def pods_of(self, namespace: str, jobset: str) -> Iterator[JobSetPod]:
        for pod in self._objects(PODS, namespace):
            if (pod["metadata"].get("labels") or {}).get(JOBSET_NAME) == jobset:
                yield msgspec.convert(pod, JobSetPod)

    def node(self, name: str) -> Object | None:
        found = self._find(NODES.group, NODES.version, NODES.plural, Key("", name))
        return None if found is None else msgspec.convert(found, Object)
