"""HorizontalPodAutoscaler (autoscaling/v2) as this controller reads it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ktrain.api.meta import Json, Object, Resource, Struct


class ScalingPolicy(Struct, frozen=True):
    """How many pods, or how many percent of them, may come or go in a period."""

    type: str = "Percent"
    value: int = 0
    period_seconds: int = 15


class ScalingRules(Struct, frozen=True):
    """`spec.behavior.scaleUp` or `.scaleDown`. The API server fills in policies where there are rules at all."""

    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[ScalingPolicy, ...] = ()
    tolerance: str | None = None


class Behavior(Struct, frozen=True):
    """`spec.behavior`; the defaults are Kubernetes'."""

    scale_up: ScalingRules = ScalingRules(0, "Max", (ScalingPolicy("Pods", 4), ScalingPolicy("Percent", 100)))
    scale_down: ScalingRules = ScalingRules(None, "Max", (ScalingPolicy("Percent", 100),))


class MetricTarget(Struct, frozen=True):
    """The target of a metric: a share of the requests in percent, or an amount of each pod."""

    type: str = ""
    average_utilization: int | None = None
    average_value: str | None = None


class ResourceMetric(Struct, frozen=True):
    """A metric of a resource that pods use."""

    name: str = ""
    target: MetricTarget = MetricTarget()


class Metric(Struct, frozen=True):
    """One metric. Only `Resource` of the resource cpu is known here."""

    type: str = ""
    resource: ResourceMetric = ResourceMetric()


class ScaleTarget(Struct, frozen=True):
    """The object whose scale subresource is read and written."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Struct, frozen=True):
    """The target, the metrics and the bounds."""

    scale_target_ref: ScaleTarget = ScaleTarget()
    min_replicas: int = 1
    max_replicas: int = 1
    metrics: tuple[Metric, ...] = ()
    behavior: Behavior = Behavior()


class AutoscalerStatus(Struct, frozen=True):
    """The part of the status that the next reconcile needs; conditions stay as they are written."""

    last_scale_time: datetime | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    current_metrics: list[Json] | None = None
    conditions: list[Json] | None = None


class Autoscaler(Object, frozen=True):
    """A HorizontalPodAutoscaler."""

    spec: AutoscalerSpec = AutoscalerSpec()
    status: AutoscalerStatus = AutoscalerStatus()


AUTOSCALERS: Final = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True, type=Autoscaler
)
