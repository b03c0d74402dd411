"""
What a candidate has seen of a Lease, and what follows from it. No clock is compared with another: a record is valid for
its own duration since *this* process saw it change.

Three things look alike and are not:

    given up      no holder, and a duration of a second at most: that is how a leader leaves (also one in Go). Free.
    emptied       no holder, but the duration as it was: somebody edited it by hand
    deleted       by hand, too

After the last two the leader does not know yet, and writes on until its next renewal, which puts the record right. So
whoever saw it lead respects it for one more duration. Only a candidate that never saw the record takes it at once.

A record with our own name that we did not write (two installs with one identity, an edit by hand) is somebody else's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ktrain.api.core import Lease, LeaseSpec

RELEASED_S: Final = 1
NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(slots=True)
class Record:
    """One candidate's view of one lease. Times are its own monotonic seconds."""

    identity: str
    claimed: bool = False
    """Whether this process ever tried to write itself in."""
    version: str = ""
    """resourceVersion, for the exchange."""
    spec: LeaseSpec | None = None
    """As last seen; None if there is no lease."""
    lease: Lease | None = None
    """The object as last seen, also after its deletion."""
    _holder: str = ""
    _valid_s: float = 0.0
    _since_s: float = 0.0

    def see(self, lease: Lease | None, now_s: float) -> None:
        """Note what is on the server; None if there is no such lease."""
        spec = None if lease is None else lease.spec
        if lease is not None:
            self.version, self.lease = lease.metadata.resource_version, lease
        if spec == self.spec:
            return
        self.spec = spec
        self._since_s = now_s
        if spec is not None and (spec.holder_identity or spec.lease_duration_seconds <= RELEASED_S):
            self._holder, self._valid_s = spec.holder_identity, spec.lease_duration_seconds

    def is_newer(self, lease: Lease) -> bool:
        """Whether a lease that came by another way is later than what was seen; a watch may lag behind."""
        version = lease.metadata.resource_version
        return version.isdecimal() and (not self.version.isdecimal() or int(version) > int(self.version))

    @property
    def is_ours(self) -> bool:
        """Whether the record names this process, by its own doing."""
        return self.claimed and self.spec is not None and self.spec.holder_identity == self.identity

    @property
    def holder(self) -> str:
        """Who leads, as far as this process knows; empty for nobody."""
        return self._holder

    def taken_for_s(self, now_s: float) -> float:
        """How long another's claim must be respected still; 0 if the lease may be taken."""
        if not self._holder or (self.claimed and self._holder == self.identity):
            return 0.0
        return max(0.0, self._since_s + self._valid_s - now_s)


def own_namespace(of: str) -> str:
    """
    The namespace this process runs in: `$POD_NAMESPACE`, or that of the pod's service account. Reads a file.

    Args:
        of: What is to be there, for the error.

    Raises:
        ValueError: Not in a pod.
    """
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError:
        raise ValueError(
            f"outside of a cluster nobody knows where {of} lives: configure the namespace, or set the variable "
            "POD_NAMESPACE"
        ) from None
