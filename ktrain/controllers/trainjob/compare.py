"""
Whether the API server already has what we would apply. Asked once per suspended job after a restart, so that a settled
world stays unwritten.

The live object may have more than we send: what the API server and JobSet's webhook fill in. Anything else beyond it
counts as a difference, since it may be what an earlier version of us sent and no longer wants.
"""

from __future__ import annotations

from typing import Any, Final

_FILLED_IN: Final = frozenset(
    (
        "apiVersion",
        "completionMode",
        "defaultMode",
        "divisor",
        "enableDNSHostnames",
        "groupName",
        "metadata",
        "name",
        "network",
        "protocol",
        "publishNotReadyAddresses",
        "replicas",
        "resources",
        "restartPolicy",
        "restartStrategy",
        "retentionPolicy",
        "startupPolicy",
        "successPolicy",
        "whenDeleted",
    )
)
_SERVERS: Final = frozenset(
    ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers", "selfLink")
)


def is_applied(live: Any, desired: Any) -> bool:  # noqa: ANN401 -- JSON values
    """Whether applying *desired* over *live*, an object of ours, would change nothing."""
    live = {key: value for key, value in live.items() if key != "status"}
    live["metadata"] = {key: value for key, value in live["metadata"].items() if key not in _SERVERS}
    return _covers(live, desired)


def _covers(live: Any, desired: Any) -> bool:  # noqa: ANN401 -- JSON values
    if isinstance(desired, dict):
        if not isinstance(live, dict):
            return not desired and live is None
        extra = live.keys() - desired.keys()
        return extra <= _FILLED_IN and all(_covers(live.get(key), value) for key, value in desired.items())
    if isinstance(desired, list):
        same_length = isinstance(live, list) and len(live) == len(desired)
        return same_length and all(_covers(a, b) for a, b in zip(live, desired, strict=True))
    return bool(live == desired)
