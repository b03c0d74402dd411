"""
Feature gates: alpha behaviour that is off unless somebody asks for it, by the names that the JobSet operator uses.

Gates act where a decision is made and where an object is admitted; both get the same `Gates`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from ktrain.api.trainer import ELASTIC_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS: Final = {
    "RestartJob": "restart_job",
    "ElasticJobSet": "elastic_jobset",
    "InPlaceRestart": "in_place_restart",
}


@dataclass(frozen=True, slots=True)
class Gates:
    """Which gates are on."""

    restart_job: bool = False
    """Failure policies may restart single Jobs, on the one budget of the JobSet."""
    elastic_jobset: bool = False
    """Parallelism and completions of indexed Jobs may change, together, while they run."""
    elastic_train_jobs: bool = False
    """The same for the JobSets of elastic TrainJobs alone: of the embedded control plane, and no gate to be named."""
    in_place_restart: bool = False
    """Containers restart behind a barrier that an agent in each pod holds; no Job fails."""

    def lets_resize(self, labels: Mapping[str, str]) -> bool:
        """Whether the Jobs of a JobSet with these labels may change in size."""
        return self.elastic_jobset or (self.elastic_train_jobs and ELASTIC_LABEL in labels)

    @classmethod
    def of(cls, switches: Mapping[str, bool]) -> Self:
        """
        Set gates by name.

        Raises:
            ValueError: A name is none of a gate.
        """
        if unknown := sorted(switches.keys() - _FIELDS):
            raise ValueError(f"no feature gate {unknown[0]!r}; there are {', '.join(_FIELDS)}")
        return cls(**{_FIELDS[name]: on for name, on in switches.items()})


OFF: Final = Gates()
"""As upstream ships."""
ELASTIC_TRAIN_JOBS: Final = Gates(elastic_train_jobs=True)
"""As the embedded control plane has it."""
