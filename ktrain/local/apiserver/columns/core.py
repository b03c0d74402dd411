"""Columns of Services, ConfigMaps, Secrets, Events, Namespaces, Nodes, Leases and volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.columns.base import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Cell,
    Column,
    at,
    condition,
    is_deleting,
    labels_text,
    of,
)
from ktrain.local.apiserver.forms.humanize import age

if TYPE_CHECKING:
    from datetime import datetime

    from ktrain.api.meta import Json

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def _cluster_ip(service: Json) -> str:
    spec = service.get("spec") or {}
    return (spec.get("clusterIPs") or [spec.get("clusterIP")])[0] or NONE


def _external_ip(service: Json) -> str:
    spec = service.get("spec") or {}
    given = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case "LoadBalancer":
            ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
            addresses = [entry.get("ip") or entry.get("hostname", "") for entry in ingress]
            return ",".join([*addresses, *given]) or "<pending>"
    return ",".join(given) or NONE


def _ports(service: Json) -> str:
    ports = []
    for port in (service.get("spec") or {}).get("ports") or []:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or NONE


def _count(*fields: str) -> Cell:
    return of(lambda obj: sum(len(obj.get(field) or {}) for field in fields))


def _event_object(event: Json) -> Json:
    about: Json = event.get("involvedObject") or event.get("regarding") or {}
    return about


def _event_target(event: Json) -> str:
    about = _event_object(event)
    kind = about.get("kind", "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _first_seen(event: Json, now: datetime) -> str:
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp")
    return age(first or event.get("eventTime"), now)


def _last_seen(event: Json, now: datetime) -> str:
    series = event.get("series")
    if series:
        return age(series.get("lastObservedTime"), now)
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return age(last, now) if last else _first_seen(event, now)


def _event_count(event: Json) -> int:
    series = event.get("series") or {}
    return series.get("count") or event.get("count") or event.get("deprecatedCount") or 1


def _event_source(event: Json) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component, instance = source.get("component", ""), source.get("host", "")
    if not component:
        component = event.get("reportingComponent") or event.get("reportingController") or ""
        instance = event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def _event_message(event: Json) -> str:
    return (event.get("message") or event.get("note") or "").strip()


def _node_status(node: Json) -> str:
    ready = condition(node, "Ready")
    text = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{text},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else text


def _node_roles(node: Json) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(type_: str) -> Cell:
    def address(node: Json) -> str:
        addresses = (node.get("status") or {}).get("addresses") or []
        return next((a["address"] for a in addresses if a.get("type") == type_), NONE)

    return of(address)


def _node_info(key: str) -> Cell:
    return lambda node, now: at("status", "nodeInfo", key)(node, now) or "<unknown>"


def _phase(obj: Json) -> str:
    return "Terminating" if is_deleting(obj) else str((obj.get("status") or {}).get("phase", ""))


def _access_modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def _claim_capacity(claim: Json) -> str:
    bound = (claim.get("spec") or {}).get("volumeName")
    return str(((claim.get("status") or {}).get("capacity") or {}).get("storage", "0")) if bound else ""


def _claim_modes(claim: Json) -> str:
    bound = (claim.get("spec") or {}).get("volumeName")
    return _access_modes((claim.get("status") or {}).get("accessModes")) if bound else ""


def _storage_class(obj: Json) -> str:
    annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    return str(annotated or (obj.get("spec") or {}).get("storageClassName") or "")


def _volume_claim(volume: Json) -> str:
    claim = (volume.get("spec") or {}).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


_STATUS: Final = Column("Status", at("status", "phase"), "Phase of the object")
_CLASS: Final = Column("StorageClass", of(_storage_class), "Storage class")
_ATTRIBUTES_CLASS: Final = Column(
    "VolumeAttributesClass", at("spec", "volumeAttributesClassName", default=UNSET), "Volume attributes class"
)
_VOLUME_MODE: Final = Column(
    "VolumeMode", at("spec", "volumeMode", default=UNSET), "Block device or file system", priority=1
)

SERVICE: Final = (
    NAME,
    Column("Type", at("spec", "type"), "How the service is exposed"),
    Column("Cluster-IP", of(_cluster_ip), "Address inside the cluster"),
    Column("External-IP", of(_external_ip), "Addresses outside the cluster"),
    Column("Port(s)", of(_ports), "Ports and protocols"),
    AGE,
    Column(
        "Selector",
        of(lambda service: labels_text((service.get("spec") or {}).get("selector"))),
        "Which pods stand behind it",
        priority=1,
    ),
)
CONFIG_MAP: Final = (NAME, Column("Data", _count("data", "binaryData"), "Number of keys"), AGE)
SECRET: Final = (
    NAME,
    Column("Type", at("type"), "What the secret is for"),
    Column("Data", _count("data"), "Number of keys"),
    AGE,
)
EVENT: Final = (
    Column("Last Seen", _last_seen, "How long ago it happened last"),
    Column("Type", at("type"), "Normal or Warning"),
    Column("Reason", at("reason"), "Why, in one word"),
    Column("Object", of(_event_target), "What it is about"),
    Column("Subobject", of(lambda e: _event_object(e).get("fieldPath", "")), "Which part of it", priority=1),
    Column("Source", of(_event_source), "Who reported it", priority=1),
    Column("Message", of(_event_message), "What happened"),
    Column("First Seen", _first_seen, "How long ago it happened first", priority=1),
    Column("Count", of(_event_count), "How often it happened", priority=1),
    Column("Name", at("metadata", "name"), "Name of the event", format="name", priority=1),
)
NAMESPACE: Final = (NAME, _STATUS, AGE)
NODE: Final = (
    NAME,
    Column("Status", of(_node_status), "Whether pods can run there"),
    Column("Roles", of(_node_roles), "Roles of the node"),
    AGE,
    Column("Version", at("status", "nodeInfo", "kubeletVersion"), "Version of the kubelet"),
    Column("Internal-IP", _node_address("InternalIP"), "Address inside the cluster", priority=1),
    Column("External-IP", _node_address("ExternalIP"), "Address outside the cluster", priority=1),
    Column("OS-Image", _node_info("osImage"), "Operating system", priority=1),
    Column("Kernel-Version", _node_info("kernelVersion"), "Version of the kernel", priority=1),
    Column("Container-Runtime", _node_info("containerRuntimeVersion"), "What runs the containers", priority=1),
)
LEASE: Final = (NAME, Column("Holder", at("spec", "holderIdentity"), "Who holds the lease"), AGE)
PERSISTENT_VOLUME_CLAIM: Final = (
    NAME,
    Column("Status", of(_phase), "Phase of the claim"),
    Column("Volume", at("spec", "volumeName"), "Volume that is bound to it"),
    Column("Capacity", of(_claim_capacity), "Size of that volume"),
    Column("Access Modes", of(_claim_modes), "How it can be mounted"),
    _CLASS,
    _ATTRIBUTES_CLASS,
    AGE,
    _VOLUME_MODE,
)
PERSISTENT_VOLUME: Final = (
    NAME,
    Column("Capacity", at("spec", "capacity", "storage"), "Size"),
    Column(
        "Access Modes", of(lambda v: _access_modes((v.get("spec") or {}).get("accessModes"))), "How it can be mounted"
    ),
    Column("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy"), "What becomes of it when it is released"),
    Column("Status", of(_phase), "Phase of the volume"),
    Column("Claim", of(_volume_claim), "Claim that it is bound to"),
    _CLASS,
    _ATTRIBUTES_CLASS,
    Column("Reason", at("status", "reason"), "Why it failed"),
    AGE,
    _VOLUME_MODE,
)
