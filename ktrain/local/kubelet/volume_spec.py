"""
The volumes of a pod as the kubelet reads them, and the selectors that they share with variables; see `spec`.
"""

from __future__ import annotations

import msgspec

from ktrain.api.meta import Struct


class KeySelector(Struct, frozen=True):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldSelector(Struct, frozen=True):
    """A field of the pod itself, for example `metadata.labels['a']`."""

    field_path: str = ""


class ResourceSelector(Struct, frozen=True):
    """A request or limit of a container, for example `limits.cpu`, counted in units of `divisor` and rounded up."""

    resource: str = ""
    container_name: str = ""
    divisor: str = "0"


class KeyToPath(Struct, frozen=True):
    """One key of a ConfigMap or Secret, and the file it becomes."""

    key: str
    path: str
    mode: int | None = None


class ConfigMapVolume(Struct, frozen=True):
    """A ConfigMap as files."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretVolume(Struct, frozen=True):
    """A Secret as files."""

    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class DownwardFile(Struct, frozen=True):
    """A field of the pod as one file."""

    path: str
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceSelector | None = None
    mode: int | None = None


class DownwardVolume(Struct, frozen=True):
    """Fields of the pod as files."""

    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class ProjectedSecret(Struct, frozen=True):
    """A Secret inside a projected volume; unlike `SecretVolume` it says `name`."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class ServiceAccountToken(Struct, frozen=True):
    """A token of the pod's service account, renewed while the pod lives. Without an audience: the API server's."""

    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(Struct, frozen=True):
    """One source of a projected volume."""

    config_map: ConfigMapVolume | None = None
    secret: ProjectedSecret | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: ServiceAccountToken | None = None


class ProjectedVolume(Struct, frozen=True):
    """Several sources in one directory; a list of none is null on the wire."""

    sources: tuple[Projection, ...] | None = None
    default_mode: int = 0o644


class EmptyDirVolume(Struct, frozen=True):
    """A directory that lives as long as the pod."""

    medium: str = ""
    size_limit: str | int = "0"


class ClaimVolume(Struct, frozen=True):
    """A PersistentVolumeClaim."""

    claim_name: str = ""
    read_only: bool = False


class HostPathVolume(Struct, frozen=True):
    """A path of this machine."""

    path: str = ""
    type: str = ""


class Volume(Struct, frozen=True):
    """One volume. A kind that is not declared here leaves all of them unset, which the kubelet reports."""

    name: str
    empty_dir: EmptyDirVolume | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedVolume | None = None
    claim: ClaimVolume | None = msgspec.field(default=None, name="persistentVolumeClaim")
    host_path: HostPathVolume | None = None

    @property
    def in_memory(self) -> bool:
        """Whether it is to be a file system in memory."""
        return self.empty_dir is not None and self.empty_dir.medium == "Memory"

    @property
    def shows_api(self) -> bool:
        """Whether its files come from API objects, and follow their changes."""
        return any(source is not None for source in (self.config_map, self.secret, self.downward_api, self.projected))
