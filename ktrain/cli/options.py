"""How to run, and how a run can end: what the command line and the run itself share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrain.local.node_options import NodeOptions
    from ktrain.local.plane import PodMode

    from .feature_gates import FeatureGates


class Outcome(Enum):
    """How a run ended; the value is the exit code."""

    COMPLETE = 0
    FAILED = 1
    REFUSED = 2
    TIMEOUT = 124
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
    """Whoever read the output went away: what SIGPIPE would have made of it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for."""

    namespace: str
    """For objects that name none."""
    pods: PodMode
    timeout_s: float | None
    keep: bool
    """Leave the control plane up at the end."""
    output: str | None
    """Print the final TrainJob as `json` or `yaml`."""
    kubeconfig: str | None
    context: str | None
    nodes: NodeOptions
    """The nodes of a control plane of its own."""
    gates: FeatureGates
    """What is on there that is off by default."""

    @property
    def on_cluster(self) -> bool:
        """Whether a cluster was named; otherwise the run has a control plane of its own."""
        return self.kubeconfig is not None or self.context is not None
