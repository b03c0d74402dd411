"""What of a pod its containers are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktrain.api.meta import Json


@dataclass(frozen=True, slots=True)
class PodContext:
    """
    What of a pod its containers are judged by; of a template, too.

    Attributes:
        volumes: The volumes that containers may use, by name.
        claims: The names of the pod's resource claims.
        restart_policy: The pod's.
        grace_s: How long the pod may take to end.
        host_users: Whether users inside are the users outside.
    """

    volumes: Mapping[str, Json]
    claims: frozenset[str]
    restart_policy: str
    grace_s: int
    host_users: bool

    @staticmethod
    def of(spec: Json, volumes: Mapping[str, Json]) -> PodContext:
        """Read it off a spec with its defaults, of which these volumes are sound."""
        return PodContext(
            volumes=volumes,
            claims=frozenset(claim.get("name", "") for claim in spec.get("resourceClaims", ())),
            restart_policy=spec.get("restartPolicy", ""),
            grace_s=spec.get("terminationGracePeriodSeconds", 0),
            host_users=spec.get("hostUsers", True),
        )
