"""The rights of the TrainJob controller, without those of plugins. JobSets are a plugin's."""

from __future__ import annotations

from typing import Final

from ktrain.api.core import CONFIG_MAPS, EVENTS
from ktrain.api.rbac import BUILT, right
from ktrain.api.trainer import TRAIN_JOBS
from ktrain.framework import events

_OWNERS: Final = "owner references, where OwnerReferencesPermissionEnforcement is on"

RIGHTS: Final = (
    right("watched", TRAIN_JOBS, "get", "list", "watch", reason="TrainJobs"),
    right("watched", TRAIN_JOBS, "patch", subresource="status", reason="status of TrainJobs"),
    right("watched", TRAIN_JOBS, "update", subresource="finalizers", reason=_OWNERS),
    right("watched", CONFIG_MAPS, *BUILT, reason="snapshots of runtimes"),
    right("watched", EVENTS, "list", reason="why a JobSet makes no progress"),
    *events.RIGHTS,
)
SHARED_SNAPSHOTS: Final = (right("watched", CONFIG_MAPS, "delete", reason="shared snapshots that no job uses"),)
