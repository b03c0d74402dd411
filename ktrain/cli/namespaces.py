"""What an operator with `watchNamespaces` does not do, logged once when it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from structlog.typing import FilteringBoundLogger

    from .config import Configuration

log: FilteringBoundLogger = structlog.get_logger("ktrain.operator")


def effects(configuration: Configuration) -> Iterator[str]:
    """Yield what is different for an operator that watches single namespaces."""
    yield "a TrainJob needs a TrainingRuntime of its namespace: ClusterTrainingRuntimes are not read"
    yield "gangs do not count the overhead of RuntimeClasses, and names of PriorityClasses are not checked"
    if configuration.jobset.enable:
        yield "exclusive placement of JobSets works on labelled nodes only: nodes are not read"
        yield "nobody checks whether the JobSet operator runs in this cluster, too"
    needing = {
        "certManagement.enable": configuration.cert_management.enable,
        "featureGates.TrainJobStatus": configuration.takes_reports,
        "metrics.authorize": configuration.metrics.authorized,
    }
    for field, is_on in needing.items():
        if is_on:
            yield f"{field} needs rights that no Role can give: bind a ClusterRole to the operator's account for it"


def warn(configuration: Configuration) -> None:
    """Log what is different, if the operator watches single namespaces."""
    if configuration.watch_namespaces:
        watched = list(configuration.watch_namespaces)
        log.warning("operator.namespaced", namespaces=watched, effects=list(effects(configuration)))
