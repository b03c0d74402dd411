"""Columns of kinds that are only stored: workloads without controllers, policies, endpoints, quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ktrain.local.apiserver.columns.base import AGE, NAME, NONE, UNSET, Column, at, labels_text, of
from ktrain.local.apiserver.columns.workloads import CONTAINERS, IMAGES, SELECTOR, selector_text
from ktrain.local.apiserver.forms.humanize import age

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from ktrain.api.meta import Json

_SHOWN: Final = 3
_SHOWN_METRICS: Final = 2


def _some(values: Iterable[str], *, shown: int = _SHOWN, none: str = UNSET) -> str:
    """Return the first values, and how many more there are."""
    listed = list(values)
    text = ",".join(listed[:shown])
    return f"{text} + {len(listed) - shown} more..." if len(listed) > shown else text or none


def _number(*path: str) -> Callable[[Json, datetime], Any]:
    return at(*path, default=0)


def _ready(default: int) -> Callable[[Json, datetime], Any]:
    ready, wanted = _number("status", "readyReplicas"), at("spec", "replicas", default=default)
    return lambda obj, now: f"{ready(obj, now)}/{wanted(obj, now)}"


def _suspended(obj: Json) -> str:
    return str(bool((obj.get("spec") or {}).get("suspend")))


def _last_schedule(obj: Json, now: datetime) -> str:
    last = (obj.get("status") or {}).get("lastScheduleTime")
    return age(last, now) if last else NONE


def _cron_selector(obj: Json) -> str:
    job = ((obj.get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
    return selector_text(job.get("selector"))


def _scale_target(obj: Json) -> str:
    target = (obj.get("spec") or {}).get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _targets(obj: Json) -> str:
    wanted = (obj.get("spec") or {}).get("metrics") or []
    seen = (obj.get("status") or {}).get("currentMetrics") or []
    found = [seen[index] if index < len(seen) else {} for index in range(len(wanted))]
    texts = [_target(*pair) for pair in zip(wanted, found, strict=True)]
    shown = ", ".join(texts[:_SHOWN_METRICS])
    return f"{shown} + {len(texts) - _SHOWN_METRICS} more..." if len(texts) > _SHOWN_METRICS else shown or NONE


def _target(metric: Json, seen: Json) -> str:
    kind = metric.get("type", "")
    source = kind[:1].lower() + kind[1:]
    value, now = metric.get(source) or {}, (seen.get(source) or {}).get("current") or {}
    target = value.get("target") or {}
    if kind in {"Resource", "ContainerResource"}:
        if "averageValue" in target:
            shown = f"{now.get('averageValue', '<unknown>')}/{target['averageValue']}"
        else:
            current = f"{now['averageUtilization']}%" if "averageUtilization" in now else "<unknown>"
            wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
            shown = f"{current}/{wanted}"
        return f"{value.get('name', '')}: {shown}"
    if "averageValue" in target:
        per_pod = "" if kind == "Pods" else " (avg)"
        return f"{now.get('averageValue', '<unknown>')}/{target['averageValue']}{per_pod}"
    return f"{now.get('value', '<unknown>')}/{target.get('value', '')}"


def _bound(name: str) -> Callable[[Json, datetime], Any]:
    value = at("spec", name)
    return lambda obj, now: str(value(obj, now)) or "N/A"


def _minimum(obj: Json) -> str:
    return str((obj.get("spec") or {}).get("minReplicas", UNSET))


def _hosts(obj: Json) -> str:
    rules = (obj.get("spec") or {}).get("rules") or []
    hosts = [rule["host"] for rule in rules[:_SHOWN] if rule.get("host")]
    text = ",".join(hosts)
    return f"{text} + {len(rules) - _SHOWN} more..." if hosts and len(rules) > _SHOWN else text or "*"


def _addresses(obj: Json) -> str:
    entries = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    text = ",".join(sorted({entry.get("ip") or entry.get("hostname", "") for entry in entries}))
    return f"{text[:13]}..." if len(text) > 16 else text


def _endpoints(obj: Json) -> str:
    found = [
        f"{address['ip']}:{port['port']}" if port else address["ip"]
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or (None,)
        for address in subset.get("addresses") or ()
    ]
    return _some(found) if obj.get("subsets") else NONE


def _slice_ports(obj: Json) -> str:
    return _some(str(port.get("port") or port.get("name", "*")) for port in obj.get("ports") or ())


def _slice_addresses(obj: Json) -> str:
    return _some(address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ())


def _used(*, limits: bool) -> Callable[[Json, datetime], Any]:
    def cell(obj: Json) -> str:
        status = obj.get("status") or {}
        used = status.get("used") or {}
        counted = sorted((status.get("hard") or {}).items())
        return ", ".join(f"{n}: {used.get(n, 0)}/{hard}" for n, hard in counted if n.startswith("limits.") == limits)

    return of(cell)


def _count(name: str, path: tuple[str, ...], text: str) -> Column:
    return Column(name, _number(*path), text, type="integer")


_REPLICAS: Final = ("status", "replicas")

DEPLOYMENT: Final = (
    NAME,
    Column("Ready", _ready(1), "Pods that are ready, of those wanted"),
    Column("Up-to-date", _number("status", "updatedReplicas"), "Pods of the newest template"),
    Column("Available", _number("status", "availableReplicas"), "Pods that have been ready for long enough"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
REPLICA_SET: Final = (
    NAME,
    _count("Desired", ("spec", "replicas"), "Pods wanted"),
    _count("Current", _REPLICAS, "Pods there are"),
    _count("Ready", ("status", "readyReplicas"), "Pods that are ready"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
STATEFUL_SET: Final = (
    NAME,
    Column("Ready", _ready(1), "Pods that are ready, of those wanted"),
    AGE,
    CONTAINERS,
    IMAGES,
)
DAEMON_SET: Final = (
    NAME,
    _count("Desired", ("status", "desiredNumberScheduled"), "Nodes that should run a pod"),
    _count("Current", ("status", "currentNumberScheduled"), "Nodes that run one"),
    _count("Ready", ("status", "numberReady"), "Nodes whose pod is ready"),
    _count("Up-to-date", ("status", "updatedNumberScheduled"), "Nodes with a pod of the newest template"),
    _count("Available", ("status", "numberAvailable"), "Nodes whose pod has been ready for long enough"),
    Column(
        "Node Selector",
        of(lambda obj: labels_text((obj["spec"]["template"].get("spec") or {}).get("nodeSelector"))),
        "Which nodes",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
CRON_JOB: Final = (
    NAME,
    Column("Schedule", at("spec", "schedule"), "When, in cron's form"),
    Column("Timezone", at("spec", "timeZone", default=NONE), "Where it is that time"),
    Column("Suspend", of(_suspended), "Whether no job is started", type="boolean"),
    Column(
        "Active", of(lambda obj: len((obj.get("status") or {}).get("active") or ())), "Jobs that run", type="integer"
    ),
    Column("Last Schedule", _last_schedule, "How long ago a job was last started"),
    AGE,
    CONTAINERS,
    IMAGES,
    Column("Selector", of(_cron_selector), "Which pods count", priority=1),
)
AUTOSCALER: Final = (
    NAME,
    Column("Reference", of(_scale_target), "What is scaled"),
    Column("Targets", of(_targets), "What is measured, and what it should be"),
    Column("MinPods", of(_minimum), "Fewest replicas"),
    Column("MaxPods", at("spec", "maxReplicas"), "Most replicas"),
    Column("Replicas", _number("status", "currentReplicas"), "Replicas there are"),
    AGE,
)
NETWORK_POLICY: Final = (
    NAME,
    Column("Pod-Selector", of(lambda obj: selector_text((obj.get("spec") or {}).get("podSelector"))), "Which pods"),
    AGE,
)
INGRESS: Final = (
    NAME,
    Column("Class", at("spec", "ingressClassName", default=NONE), "Who routes it"),
    Column("Hosts", of(_hosts), "Names it answers to"),
    Column("Address", of(_addresses), "Where it answers"),
    Column("Ports", of(lambda obj: "80, 443" if (obj.get("spec") or {}).get("tls") else "80"), "Ports it answers on"),
    AGE,
)
BUDGET: Final = (
    NAME,
    Column("Min Available", _bound("minAvailable"), "Pods that must stay"),
    Column("Max Unavailable", _bound("maxUnavailable"), "Pods that may be away"),
    _count("Allowed Disruptions", ("status", "disruptionsAllowed"), "Pods that may be evicted now"),
    AGE,
)
ENDPOINTS: Final = (NAME, Column("Endpoints", of(_endpoints), "Addresses and ports"), AGE)
ENDPOINT_SLICE: Final = (
    NAME,
    Column("AddressType", at("addressType"), "Kind of its addresses"),
    Column("Ports", of(_slice_ports), "Ports"),
    Column("Endpoints", of(_slice_addresses), "Addresses"),
    AGE,
)
QUOTA: Final = (
    NAME,
    Column("Request", _used(limits=False), "What is used of what is allowed"),
    Column("Limit", _used(limits=True), "The same of limits"),
    AGE,
)
