"""The rights of the JobSet controller."""

from __future__ import annotations

from typing import Final

from ktrain.api.core import JOBS, LEASES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from ktrain.api.jobset import JOBSETS
from ktrain.api.rbac import BUILT, right
from ktrain.framework import events

_OWNERS: Final = "owner references, where OwnerReferencesPermissionEnforcement is on"

RIGHTS: Final = (
    right("watched", JOBSETS, "get", "list", "watch", "delete", reason="JobSets"),
    right("watched", JOBSETS, "patch", subresource="status", reason="status of JobSets"),
    right("watched", JOBSETS, "update", subresource="finalizers", reason=_OWNERS),
    right("watched", JOBS, *BUILT, "delete", reason="Jobs of JobSets"),
    right("watched", JOBS, "patch", subresource="status", reason="restarts of single Jobs"),
    right("watched", SERVICES, "list", "watch", "create", reason="headless Services of JobSets"),
    right("watched", PERSISTENT_VOLUME_CLAIMS, "get", "list", "watch", "create", reason="volume claims of JobSets"),
    right("watched", PODS, "list", "watch", "delete", reason="pods of JobSets"),
    right("watched", PODS, "patch", subresource="status", reason="why a pod is evicted"),
    right("cluster", NODES, "list", "watch", reason="topology domains of exclusive placement"),
    right("cluster", LEASES, "list", reason="whether the JobSet operator works here; without it that is not checked"),
    *events.RIGHTS,
)
