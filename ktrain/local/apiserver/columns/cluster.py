"""Columns of access rules, classes and configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktrain.local.apiserver.columns.base import AGE, CREATED_AT, NAME, Cell, Column, at, labels_text, of
from ktrain.local.apiserver.columns.workloads import CONTAINERS, IMAGES

if TYPE_CHECKING:
    from ktrain.api.meta import Json

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _role(binding: Json) -> str:
    reference = binding.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def names(binding: Json) -> str:
        subjects = [s for s in binding.get("subjects") or [] if s.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects)
        return ", ".join(s.get("name", "") for s in subjects)

    return of(names)


def _class_name(storage_class: Json) -> str:
    metadata = storage_class["metadata"]
    is_default = (metadata.get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{metadata['name']} (default)" if is_default else str(metadata["name"])


def _template_labels(template: Json) -> str:
    return labels_text(((template.get("template") or {}).get("metadata") or {}).get("labels"))


CREATED: Final = (NAME, CREATED_AT)
BINDING: Final = (
    NAME,
    Column("Role", of(_role), "Role that is granted"),
    AGE,
    Column("Users", _subjects("User"), "Users it is granted to", priority=1),
    Column("Groups", _subjects("Group"), "Groups it is granted to", priority=1),
    Column("ServiceAccounts", _subjects("ServiceAccount"), "Service accounts it is granted to", priority=1),
)
PRIORITY_CLASS: Final = (
    NAME,
    Column("Value", at("value", default=0), "Priority of pods of this class", type="integer"),
    Column("Global-Default", at("globalDefault", default=False), "Whether pods without a class get it", type="boolean"),
    AGE,
    Column("PreemptionPolicy", at("preemptionPolicy"), "Whether its pods preempt others"),
)
RUNTIME_CLASS: Final = (NAME, Column("Handler", at("handler"), "Configuration of the container runtime"), AGE)
STORAGE_CLASS: Final = (
    Column("Name", of(_class_name), "Name of the class", format="name"),
    Column("Provisioner", at("provisioner"), "Who makes its volumes"),
    Column("ReclaimPolicy", at("reclaimPolicy", default="Delete"), "What becomes of volumes that are released"),
    Column("VolumeBindingMode", at("volumeBindingMode", default="Immediate"), "When volumes are made"),
    Column("AllowVolumeExpansion", at("allowVolumeExpansion", default=False), "Whether volumes can grow"),
    AGE,
)
WEBHOOKS: Final = (
    NAME,
    Column("Webhooks", of(lambda obj: len(obj.get("webhooks") or [])), "Number of webhooks", type="integer"),
    AGE,
)
POD_TEMPLATE: Final = (
    NAME,
    Column("Containers", CONTAINERS.cell, CONTAINERS.description),
    Column("Images", IMAGES.cell, IMAGES.description),
    Column("Pod Labels", of(_template_labels), "Labels of the template's pods"),
)
