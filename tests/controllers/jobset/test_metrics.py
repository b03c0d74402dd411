"""What is counted of JobSets, under upstream's names."""

from prometheus_client import CollectorRegistry

from ktrain.api.meta import Key
from ktrain.controllers.jobset.metrics import JobSetMetrics
from ktrain.framework.metrics import Metrics


def test_ends_are_counted_by_name_and_namespace():
    registry = CollectorRegistry()
    metrics = JobSetMetrics(Metrics(registry))
    for state in ("Completed", "Completed", "Failed", ""):
        metrics.ended(state, Key("ns", "js"))
    labels = {"jobset_name": "js", "namespace": "ns"}

    assert registry.get_sample_value("jobset_completed_total", labels) == 2
    assert registry.get_sample_value("jobset_failed_total", labels) == 1
